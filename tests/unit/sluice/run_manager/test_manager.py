# SPDX-License-Identifier: Apache-2.0
"""The run manager with small programs in place of `sluice run`."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from policy.errors import SluiceError
from runtime.process import spawn as really_spawn
from runtime.wait import wait_until
from sluice.run_manager import manager as module
from sluice.run_manager.manager import RunManager
from sluice.run_manager.refusal import Refusal, refused

WHO = {"by": "alice", "address": "192.0.2.1"}
SIMULATION = {"on": "simulator", "scenario": "paper-mix"}
TESTBED = {"on": "testbed", "scenario": "demo", "flows": 10}
ENDS_AT_INTERRUPT = "import time\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    pass"
NEVER_ENDS = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(60)
"""
HAS_A_CHILD = "import subprocess\nprint(subprocess.Popen(['sleep', '60']).pid, flush=True)"


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The program that runs in place of the next ones; a test replaces its text."""
    text = [ENDS_AT_INTERRUPT]

    def spawn(argv: list[str], **options: Any) -> Any:
        assert argv[argv.index("run") - 1] == "sluice"
        return really_spawn([sys.executable, "-c", text[0]], **options)

    monkeypatch.setattr(module, "spawn", spawn)
    monkeypatch.setattr(module, "need_testbed", lambda: None)
    return text


@pytest.fixture
def served(tmp_path: Path, program: list[str]) -> Iterator[RunManager]:
    manager, ended = RunManager(tmp_path / "runs", 2), threading.Event()
    thread = threading.Thread(target=manager.serve, args=(ended,))
    thread.start()
    yield manager
    ended.set()
    thread.join(60)
    assert not thread.is_alive()


def pid(manager: RunManager, name: str) -> int:
    return manager._children[name].process.pid


def gone(number: int) -> bool:
    return not Path(f"/proc/{number}").exists()


def test_start__a_run_has_a_folder_that_says_who_started_it(served: RunManager) -> None:
    name = served.start(SIMULATION, WHO)["name"]
    request = json.loads((served.folder / name / "request.json").read_text())
    assert (request["by"], request["address"], request["scenario"]) == ("alice", "192.0.2.1", "paper-mix")
    assert served.states() == {name: "running"}


def test_cancel__ends_a_run_in_order_and_reaps_it(served: RunManager) -> None:
    name = served.start(SIMULATION, WHO)["name"]
    number = pid(served, name)
    served.cancel(name)
    assert served.states() in ({name: "ending"}, {})
    wait_until(lambda: not served.states(), "the run has ended")
    assert gone(number)
    with pytest.raises(Refusal, match="has ended"):
        served.cancel(name)


def test_cancel__a_run_that_does_not_end_is_killed(
    served: RunManager, program: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program[0] = NEVER_ENDS
    monkeypatch.setattr(module, "GRACE_S", 0.3)
    name = served.start(SIMULATION, WHO)["name"]
    wait_until(lambda: "deaf" in (served.folder / name / "log.txt").read_text(), "it ignores the signal")
    number = pid(served, name)
    served.cancel(name)
    wait_until(lambda: not served.states(), "the run has ended")
    assert gone(number)


def test_end__nothing_of_the_process_group_of_a_run_is_left(served: RunManager, program: list[str]) -> None:
    program[0] = HAS_A_CHILD
    name = served.start(SIMULATION, WHO)["name"]
    wait_until(lambda: not served.states(), "the run has ended")
    number = int((served.folder / name / "log.txt").read_text())
    wait_until(lambda: gone(number) or not is_running(number), "the child of the run has ended")


def is_running(number: int) -> bool:
    """Return whether the process is neither gone nor a zombie."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_start__simulations_are_bounded_and_the_testbed_has_one_run(served: RunManager) -> None:
    names = [served.start(SIMULATION, WHO)["name"] for _ in range(2)]
    assert len(set(names)) == 2
    with pytest.raises(Refusal, match="2 simulations run already"):
        served.start(SIMULATION, WHO)
    first = served.start(TESTBED, WHO)["name"]
    with pytest.raises(Refusal, match=f"the run {first} holds the testbed"):
        served.start(TESTBED, WHO)


def test_start__a_testbed_of_someone_else_is_named(
    served: RunManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "need_testbed", lambda: "a testbed runs on this machine: 4711")
    with pytest.raises(Refusal, match="4711") as found:
        served.start(TESTBED, WHO)
    assert refused(found.value)["error"]["status"] == 409


def test_start__hours_need_a_confirmation(served: RunManager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.run_manager.plans.predicted_s", lambda document, on: 9000.0)
    with pytest.raises(Refusal, match="about 2 h 30 min") as found:
        served.start(SIMULATION, WHO)
    assert refused(found.value)["predicted_s"] == 9000.0
    assert not served.folder.exists()
    assert served.check(SIMULATION)["asks"] is True
    assert served.start({**SIMULATION, "confirmed": True}, WHO)["name"]


def test_start__a_name_cannot_lead_out_of_the_folder(served: RunManager) -> None:
    text = 'name = "x"\nfabric = { topology = "single" }\nscheme = { name = "dctcp" }\n'
    text += 'workload = { flows = 2, sizes = "web-search", load = 0.5 }\n'
    try:
        name = served.start({"on": "simulator", "text": text.replace('"x"', '"../../x"')}, WHO)["name"]
    except SluiceError:
        name = ""
    assert ".." not in name
    assert "/" not in name
    assert {path.name for path in served.folder.parent.iterdir()} <= {"runs"}
