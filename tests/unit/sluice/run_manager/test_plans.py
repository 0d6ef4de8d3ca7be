# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.policy.errors import SluiceError
from sluice.run_manager.plans import need_testbed, plan, scenario_names

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
    assert "paper-mix" in scenario_names()
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
    assert len(alone.points) == 1
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
        ({"scenario": "../scenarios/paper-mix"}, "no scenario"),
        ({"scenario": None}, "either the name of a scenario or a text"),
        ({"text": OWN}, "either the name of a scenario or a text"),
        ({"scenario": None, "text": "x ="}, "not TOML"),
        ({"scenario": None, "text": "x" * 70_000}, "text: "),
        ({"settings": ["x"]}, "settings x: must be key=value"),
        ({"settings": ["workload.load=7"]}, "workload.load"),
        (
            {"scenario": "demo", "settings": ["workload.sizes=/etc/passwd"]},
            "cannot read files of the machine",
        ),
        (
            {"scenario": "demo", "settings": ["workload.sizes=../../../secret"]},
            "cannot read files of the machine",
        ),
        ({"scenario": "demo", "settings": ["workload.sizes=secret.cdf"]}, "cannot read files of the machine"),
        ({"flows": 0}, "flows: "),
        ({"flows": "9"}, "flows: "),
        ({"what": 1}, "what"),
        ({"seeds": [1]}, "seeds: belongs to a sweep"),
        ({"sweep": True, "seeds": []}, "seeds: "),
        ({"sweep": True, "loads": [0.5, 9]}, "loads: "),
        ({"sweep": True, "loads": ["much"]}, "loads: "),
        ({"sweep": True, "schemes": ["dctpc"]}, "did you mean"),
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
        ({"on": "testbed", "scenario": None, "text": OWN.replace("dctcp", "pfabric")}, "pfabric needs"),
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
    monkeypatch.setattr("sluice.testbeds.running_testbeds", lambda: [SimpleNamespace(shown="7 (single)")])
    monkeypatch.setattr("sluice.run_manager.plans._lasting_obstacle", lambda: "no root rights")
    assert need_testbed() == "no root rights"
    monkeypatch.setattr("sluice.run_manager.plans._lasting_obstacle", lambda: None)
    assert (need_testbed() or "").startswith("a testbed runs on this machine: 7 (single). ")
