# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from policy.errors import SluiceError
from sluice.run_manager.plans import plan, scenario_names

OWN = """
name = "own"
fabric = { topology = "single" }
scheme = { name = "dctcp" }
workload = { flows = 2, sizes = "web-search", load = 0.5 }
"""


def test_plan__a_name_or_a_text_with_changes() -> None:
    assert "paper-mix" in scenario_names()
    named = plan({"on": "simulator", "scenario": "paper-mix", "flows": 9, "settings": ["workload.load=0.5"]})
    assert named.settings == ("workload.load=0.5", "workload.flows=9")
    assert named.scenario.workload.flows == 9
    assert named.predicted_s is not None
    own = plan({"on": "testbed", "text": OWN})
    assert own.scenario.name == "own"


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
