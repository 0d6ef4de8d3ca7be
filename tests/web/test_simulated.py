# SPDX-License-Identifier: Apache-2.0
"""The dashboard on a simulated network: the same page, with a label, without root."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.runs.files import scenario_from_file
from sluice.runs.stack import SimulatedStack
from sluice.simulator.build import build
from sluice.topologies import build_topology
from tests.web.conftest import Page, eventually, free_address
from tests.web.dashboard import LIVE, figure, until

pytestmark = pytest.mark.web


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedStack]:
    """Run a small network like the demonstration's, with a web process. In the end nothing of them is left."""
    build()
    small = {"fabric.leaves": 2, "fabric.hosts_per_leaf": 2, "workload.load": 0.2}
    scenario, document, _ = scenario_from_file(Path("demo-simulator"), small)
    topology, folder = build_topology(scenario), tmp_path_factory.mktemp("simulated")
    listen = free_address()
    with SimulatedStack.start(scenario, topology, folder, document=document, listen=listen) as stack:
        yield stack
        pids = [service.process.pid for service in stack.services.running]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not stack.meeting.exists()


def test_page__shows_a_simulated_network_and_changes_its_policy(stack: SimulatedStack, page: Page) -> None:
    page.goto(f"http://{stack.listen}/#token={stack.token}")
    page.wait_for_selector(LIVE)
    until(page, "() => document.getElementById('fabric').textContent.startsWith('Simulated')")
    eventually(lambda: figure(page, "flows") not in ("–", "0"), "flows per second")
    until(page, "() => Object.values(window.sluice.model.snapshot.ports).some((port) => port.load > 0.05)")
    # A testbed refuses this scheme. The option is below the edge of its list, so the mouse would not reach it.
    page.locator('#schemes input[value="pfabric"]').evaluate("(radio) => radio.click()")
    until(page, "() => document.getElementById('preview').textContent !== ''")  # it moves the button
    page.click("#apply")
    until(page, "() => document.querySelector('[data-kpi=policy]').dataset.version === '2'")
    until(page, "() => document.querySelector('[data-kpi=policy]').dataset.state === 'applied'")
    assert stack.get("health").json()["status"] == "ok"


def test_network__a_new_process_goes_on_after_the_first_was_killed(stack: SimulatedStack) -> None:
    before, recorded = stack.heartbeat().pid, stack.recorded()
    stack.services["network"].process.kill()

    def again() -> bool:
        stack.check()
        return stack.heartbeat().pid != before and stack.recorded() > recorded

    eventually(again, "records of another process")
