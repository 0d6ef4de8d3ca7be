# SPDX-License-Identifier: Apache-2.0
"""Takes the pictures of the dashboard in `docs/`, from a simulated demonstration that goes through some schemes.

`make screenshots` writes them. They need Chromium and a C++ compiler, and no root. Other work on the machine shows in
the picture: the page says so if the simulator falls behind.
"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sluice.policy.errors import SluiceError
from sluice.runs.files import scenario_from_file
from sluice.runs.stack import SimulatedStack
from sluice.simulator.build import build
from sluice.topologies import build_topology
from tests.web.conftest import CHROMIUM, CHROMIUM_ARGUMENTS
from tests.web.dashboard import LIVE, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SCENARIO = Path("demo-simulator")
SCHEMES = ("tcp", "dctcp", "pias", "mlfq-adaptive")
"""In force one after the other. The picture is taken at the end of the last."""
DOCS = Path(__file__).parents[1] / "docs"
MOST_BYTES = 400_000
"""A larger picture would make the pages slow."""


PICTURES: Mapping[str, Literal["light", "dark"]] = {"dashboard.png": "light", "dashboard-dark.png": "dark"}
"""Name → theme of the page."""


def take_pictures(folder: Path, seconds: float) -> list[Path]:
    """Run the demonstration with each scheme for that many seconds, and write the pictures into the folder."""
    from playwright.sync_api import sync_playwright

    build()
    with tempfile.TemporaryDirectory(prefix="sluice-pictures-") as out, sync_playwright() as playwright:
        scenario, document, _ = scenario_from_file(SCENARIO)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            listen = f"127.0.0.1:{free.getsockname()[1]}"
        topology = build_topology(scenario)
        with SimulatedStack.start(scenario, topology, Path(out), document=document, listen=listen) as stack:
            _go_through_schemes(stack, seconds)
            browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=CHROMIUM_ARGUMENTS)
            try:
                return [_take(browser, f"http://{listen}/", folder / name) for name in PICTURES]
            finally:
                browser.close()


def _go_through_schemes(stack: SimulatedStack, seconds: float) -> None:
    for scheme in SCHEMES:
        answer = stack.put_policy({"scheme": scheme})
        if answer.status not in (200, 202):
            raise SluiceError(f"the policy {scheme} was refused with the status {answer.status}")
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            stack.check()
            time.sleep(1)


def _take(browser: Browser, url: str, path: Path) -> Path:
    """Open the page, wait until its cards are full, and write what its window shows."""
    page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme=PICTURES[path.name])
    page.goto(url)
    page.wait_for_selector(LIVE)
    until(page, "document.querySelector('[data-kpi=small-mean] .value').textContent !== '–'")
    until(page, "document.querySelector('#queues-chart .empty').textContent === ''")
    page.screenshot(path=path)
    page.close()
    if path.stat().st_size > MOST_BYTES:
        raise SluiceError(f"{path} has {path.stat().st_size} bytes: at most {MOST_BYTES}")
    return path


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make screenshots", description=__doc__)
    parser.add_argument("--out", type=Path, default=DOCS, help="folder of the pictures (default: docs)")
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="how long each scheme is in force (default: %(default)s)"
    )
    arguments = parser.parse_args(argv)
    for path in take_pictures(arguments.out, arguments.seconds):
        print(f"{path}: {path.stat().st_size / 1000:.0f} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
