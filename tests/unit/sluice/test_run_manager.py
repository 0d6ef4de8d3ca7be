# SPDX-License-Identifier: Apache-2.0
"""The run manager with small programs in place of `sluice run`."""

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice import run_manager as module
from sluice.policy.errors import SluiceError
from sluice.run_manager import Listing, Refusal, RunManager, need_testbed, plan, refused
from sluice.runs.progress import born_at
from sluice.runtime.process import spawn as really_spawn
from sluice.runtime.wait import wait_until
from sluice.sweep.points import DEFAULT_SEEDS
from tests.kit.bundles import sweep

WHO = {"by": "alice", "address": "192.0.2.1"}
COMMANDS: list[list[str]] = []
"""What was started: the words after `sluice`."""
SIMULATION = {"on": "simulator", "scenario": "paper-mix"}
SWEEP = {**SIMULATION, "sweep": True, "schemes": ["dctcp", "pias"], "seeds": [1, 2], "flows": 20}
TESTBED = {"on": "testbed", "scenario": "demo", "flows": 10}
ENDS_AT_INTERRUPT = "import time\ntry:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    pass"
NEVER_ENDS = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(60)
"""
IS_POLITE = """
import os, time
os.nice(10)
try:
    print("polite", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    print("ends at", os.getpriority(os.PRIO_PROCESS, 0), flush=True)
"""
HAS_A_CHILD = "import subprocess\nprint(subprocess.Popen(['sleep', '60']).pid, flush=True)"


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The program that runs in place of the next ones; a test replaces its text."""
    text = [ENDS_AT_INTERRUPT]
    COMMANDS.clear()

    def spawn(argv: list[str], **options: Any) -> Any:
        assert argv[argv.index("sluice") + 1] in {"run", "sweep"}
        COMMANDS.append(argv[argv.index("sluice") + 1 :])
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
    thread.join(300)
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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may raise a priority")
def test_cancel__a_polite_run_is_polite_no_more(served: RunManager, program: list[str]) -> None:
    program[0] = IS_POLITE
    name = served.start(SIMULATION, WHO)["name"]
    log = served.folder / name / "log.txt"
    wait_until(lambda: "polite" in log.read_text(), "it runs")
    served.cancel(name)
    wait_until(lambda: not served.states(), "the run has ended")
    assert "ends at 0" in log.read_text()


def test_end__nothing_of_the_process_group_of_a_run_is_left(served: RunManager, program: list[str]) -> None:
    program[0] = HAS_A_CHILD
    name = served.start(SIMULATION, WHO)["name"]
    wait_until(lambda: not served.states(), "the run has ended")
    number = int((served.folder / name / "log.txt").read_text())
    wait_until(lambda: born_at(number) is None, "the child of the run has ended")


def test_start__simulations_are_bounded_and_the_testbed_has_one_run(served: RunManager) -> None:
    names = [served.start(SIMULATION, WHO)["name"] for _ in range(2)]
    assert len(set(names)) == 2
    with pytest.raises(Refusal, match="2 simulations run already"):
        served.start(SIMULATION, WHO)
    first = served.start(TESTBED, WHO)["name"]
    with pytest.raises(Refusal, match=f"the run {first} holds the testbed"):
        served.start(TESTBED, WHO)


def test_start__a_sweep_takes_the_simulations_that_are_free(served: RunManager) -> None:
    first = served.start(SIMULATION, WHO)["name"]
    with_one = served.start(SWEEP, WHO)["name"]
    with pytest.raises(Refusal, match="2 simulations run already"):
        served.start(SIMULATION, WHO)
    served.cancel(first)
    served.cancel(with_one)
    wait_until(lambda: not served.states(), "both have ended")
    with_two = served.start(SWEEP, WHO)["name"]
    with pytest.raises(Refusal, match="2 simulations run already"):
        served.start(SIMULATION, WHO)
    out = str(served.folder / with_two)
    assert COMMANDS[-1][0] == "sweep"
    assert COMMANDS[-1][2:] == [
        *["--on", "simulator", "--out", out, "--yes", "--set=workload.flows=20"],
        *["--schemes", "dctcp", "pias", "--seeds", "1", "2", "--jobs", "2"],
    ]
    assert COMMANDS[-2][-2:] == ["--jobs", "1"]


def test_list__a_sweep_that_someone_calls_again_is_read_again(served: RunManager) -> None:
    folder = sweep(served.folder / "old", ["dctcp", "pias"], [0.5], [1])
    names = [str(path.relative_to(folder).parent) for path in folder.rglob("summary.json")]
    listing = Listing(served)

    def listed(points: list[str]) -> tuple[str, int, int]:
        fresh = folder / "sweep.json.new"  # replaced as a sweep does
        fresh.write_text(
            json.dumps({"on": "simulator", "points": {name: {"scheme": "x"} for name in points}})
        )
        fresh.replace(folder / "sweep.json")
        (run,) = listing.document()["runs"]
        assert listing.document()["runs"] == [run]
        return run["state"], run["finished"], run["points"]

    assert listed(names) == ("done", 2, 2)
    assert listed([*names, "tcp/load-0.5/seed-01"]) == ("partial", 2, 3)


def test_start__a_testbed_of_someone_else_is_named(
    served: RunManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "need_testbed", lambda: "a testbed runs on this machine: 4711")
    with pytest.raises(Refusal, match="4711") as found:
        served.start(TESTBED, WHO)
    assert refused(found.value)["error"]["status"] == 409


def test_start__hours_need_a_confirmation(served: RunManager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "predicted_total_s", lambda works, on: 9000.0)
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


OWN = """
name = "own"
fabric = { topology = "single" }
scheme = { name = "dctcp" }
workload = { flows = 2, sizes = "web-search", load = 0.5 }
"""
PLANNED = """
[sweep]
schemes = ["dctcp", "one"]
seeds = [1, 2]
[sweep.scheme.one]
name = "pias"
queues = 2
thresholds = ["10KB"]
"""


def test_plan__a_name_or_a_text_with_changes() -> None:
    named = plan({"on": "simulator", "scenario": "paper-mix", "flows": 9, "settings": ["workload.load=0.5"]})
    assert named.settings == ("workload.load=0.5", "workload.flows=9")
    assert named.scenario.workload.flows == 9
    assert named.predicted_s is not None
    own = plan({"on": "testbed", "text": OWN})
    assert own.scenario.name == "own"


def test_plan__a_sweep_has_the_axes_of_the_request_or_of_the_scenario() -> None:
    own = plan({"on": "simulator", "text": OWN + PLANNED, "sweep": True, "flows": 9})
    assert [point.name for point in own.points] == [
        f"{scheme}/load-0.5/seed-{seed:02d}" for scheme in ("dctcp", "one") for seed in (1, 2)
    ]
    assert {point.document["workload"]["flows"] for point in own.points} == {9}
    assert own.schemes == ("dctcp", "one")
    fewer = plan({"on": "simulator", "text": OWN + PLANNED, "sweep": True, "seeds": [7]})
    assert [point.seed for point in fewer.points] == [7, 7]
    alone = plan({"on": "simulator", "text": OWN, "sweep": True})
    assert len(alone.points) == DEFAULT_SEEDS
    assert own.predicted_s is not None


def test_plan__points_at_a_time_share_the_time_of_a_sweep() -> None:
    request = {"on": "simulator", "scenario": "paper-mix", "sweep": True, "seeds": [1, 2, 3, 4], "flows": 100}
    one, two, ten = (plan(request, places).predicted_s for places in (1, 2, 10))
    assert one is not None
    assert two == pytest.approx(one / 2)
    assert ten == pytest.approx(one / 4)
    on_testbed = {**request, "on": "testbed", "scenario": "demo"}
    assert plan(on_testbed, 2).predicted_s == plan(on_testbed, 1).predicted_s


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"on": "moon"}, "on: must be"),
        ({"scenario": "paper-mxi"}, "paper-mix"),
        ({"scenario": None}, "either the name of a scenario or a text"),
        ({"scenario": None, "text": "x ="}, "not TOML"),
        ({"scenario": None, "text": "x" * 70_000}, "text: "),
        ({"settings": ["x"]}, "settings x: must be key=value"),
        (
            {"scenario": "demo", "settings": ["workload.sizes=../../../secret"]},
            "cannot read files of the machine",
        ),
        ({"scenario": "demo", "settings": ["workload.sizes=secret.cdf"]}, "cannot read files of the machine"),
        ({"flows": 0}, "flows: "),
        ({"seeds": [1]}, "seeds: belongs to a sweep"),
        ({"sweep": True, "seeds": []}, "seeds: "),
        ({"sweep": True, "loads": ["much"]}, "loads: "),
        ({"sweep": True, "schemes": ["../x"]}, "cannot name a folder"),
        ({"sweep": True, "settings": ["seed=3"]}, "seed is an axis of the sweep; set seeds instead"),
        (
            {"sweep": True, "seeds": list(range(50)), "loads": [0.1, 0.2, 0.3, 0.4, 0.5]},
            "250 points are too many",
        ),
        (
            {"sweep": True, "scenario": "demo", "settings": ["workload.sizes=/etc/passwd"]},
            "cannot read files",
        ),
        ({"sweep": True, "on": "testbed", "schemes": ["pfabric"]}, "pfabric needs"),
    ],
)
def test_plan__what_is_wrong_is_refused_by_name(
    change: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.cdf").write_text("1000 1\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SluiceError) as refused:
        plan({"on": "simulator", "scenario": "paper-mix", **change})
    assert says in str(refused.value)


def test_plan__a_trace_of_the_machine_is_refused(tmp_path: Path) -> None:
    (tmp_path / "flows.csv").write_text("time,src,dst,bytes\n0,h1,h2,1000\n")
    text = OWN.replace('flows = 2, sizes = "web-search", load = 0.5', f'trace = "{tmp_path}/flows.csv"')
    with pytest.raises(SluiceError, match="cannot be read here"):
        plan({"on": "simulator", "text": text})


def test_need_testbed__what_the_machine_lacks_comes_before_a_running_testbed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "sluice.commands.inside.running_testbeds", lambda: [SimpleNamespace(shown="7 (single)")]
    )
    monkeypatch.setattr(module, "_lasting_obstacle", lambda: "no root rights")
    assert need_testbed() == "no root rights"
    monkeypatch.setattr(module, "_lasting_obstacle", lambda: None)
    assert (need_testbed() or "").startswith("a testbed runs on this machine: 7 (single). ")
