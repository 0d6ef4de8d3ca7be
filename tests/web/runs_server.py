# SPDX-License-Identifier: Apache-2.0
"""A web process with a folder of runs, and its page."""

from pathlib import Path

from tests.web.conftest import TOKEN, Page, Server
from tests.web.dashboard import until

OWN = """
name = "own"
[fabric]
topology = "single"
hosts = 3
host_rate = "1Gbit"
[scheme]
name = "dctcp"
[workload]
pattern = "many-to-one"
to = "h1"
load = 0.3
flows = 50
mix = [{ bytes = "10KB", share = 1.0 }]
"""


class RunsServer(Server):
    """A web process with a folder of runs."""

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    def states(self) -> dict[str, str]:
        return {run["name"]: run["state"] for run in self.get("runs")["runs"]}

    def list_answers(self) -> bool:
        try:
            return bool(self.get("runs")["available"])
        except OSError:  # the run manager is starting
            return False


def open_runs(page: Page, server: RunsServer) -> None:
    page.goto(f"{server.url}/runs#token={TOKEN}")
    page.wait_for_selector('body[data-runs="ready"]')


def started(page: Page) -> str:
    """Return the name of the run that was started last."""
    until(page, "() => document.getElementById('start-message').textContent.startsWith('Started: ')")
    return page.inner_text("#start-message").removeprefix("Started: ")


def choose_own(page: Page, text: str = OWN) -> None:
    """Choose a scenario of our own."""
    page.select_option("#scenario", "")
    page.set_input_files(
        "#own", {"name": "own.toml", "mimeType": "application/toml", "buffer": text.encode()}
    )
