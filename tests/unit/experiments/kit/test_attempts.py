# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import json

import pytest

from experiments.kit import attempts
from experiments.kit.attempts import (
    markdown,
    numbers,
    run_all,
    schemes_of_testbed,
    validity_claims,
    values,
)
from experiments.papers.fish.burst import claims_of as fish_claims
from experiments.papers.fish.burst import label, plans
from policy.metrics import distribution
from policy.schemes import SCHEMES
from sluice.sweep.points import points

DOCUMENT = {
    "name": "x",
    "seed": 1,
    "fabric": {"topology": "single", "hosts": 2, "host_rate": "10Mbit"},
    "scheme": {"name": "dctcp"},
    "workload": {"mix": [{"bytes": "10KB", "share": 1.0}], "load": 0.5, "flows": 3},
}


def summary(valid: bool, small_us: float = 1000.0) -> dict:
    figures = {
        "small": distribution([small_us]),
        **dict.fromkeys(("all", "medium", "large"), distribution([])),
    }
    return {
        "fct_us": figures,
        "slowdown": figures,
        "deadlines": {"n": 0, "missed": 0, "miss_ratio": None},
        "retransmissions": 7,
        "unfinished": 0,
        "valid": {"ok": valid, "reasons": [] if valid else ["busy"]},
    }


class FakeFabric:
    """Writes bundles; the first `bad` runs are not valid."""

    def __init__(self, bad: int = 0) -> None:
        self.runs: list[str] = []
        self.bad = bad

    def __call__(self, on: str):
        return self.run

    def run(self, scenario, document, out, report):
        self.runs.append(f"{scenario.policy.scheme}-{scenario.seed}")
        out.mkdir(parents=True, exist_ok=True)
        made = summary(valid=len(self.runs) > self.bad)
        (out / "scenario.json").write_text(json.dumps(document))
        (out / "meta.json").write_text("{}")
        (out / "summary.json").write_text(json.dumps(made))
        return made


@pytest.fixture
def arguments(tmp_path):
    return argparse.Namespace(out=tmp_path, on="testbed", attempts=3)


def test_schemes_of_the_testbed__all_but_those_that_no_switch_can_do():
    assert set(SCHEMES) - set(schemes_of_testbed()) == {"d3", "pfabric"}


def test_run_all__a_run_that_is_not_valid_is_tried_again(arguments, monkeypatch):
    fabric = FakeFabric(bad=2)
    monkeypatch.setattr(attempts, "runner", fabric)
    (row,) = run_all(points(DOCUMENT), arguments)
    assert fabric.runs == ["dctcp-1"] * 3
    assert (row["valid"], row["attempts"]) == (True, 3)


def test_run_all__not_for_ever_and_then_it_says_so(arguments, monkeypatch):
    fabric = FakeFabric(bad=99)
    monkeypatch.setattr(attempts, "runner", fabric)
    table = run_all(points(DOCUMENT), arguments)
    assert len(fabric.runs) == 3
    assert table[0]["reasons"] == ["busy"]
    assert [claim.holds for claim in validity_claims(table)] == [False, True]
    run_all(points(DOCUMENT), arguments)
    assert len(fabric.runs) == 3, "a later call does not begin anew"


def test_run_all__what_is_there_is_not_run_again(arguments, monkeypatch):
    fabric = FakeFabric()
    monkeypatch.setattr(attempts, "runner", fabric)
    found = points(DOCUMENT, schemes=["dctcp", "pias"], seeds=[1, 2])
    run_all(found, arguments)
    table = run_all(found, arguments)
    assert fabric.runs == ["dctcp-1", "dctcp-2", "pias-1", "pias-2"]
    assert values(table, "pias", "fct_us_small_mean") == [1000.0, 1000.0]
    assert numbers(table)["dctcp"]["retransmissions"] == [7, 7]
    assert "| pias | 1.00 ± 0.00 | 1.00 ± 0.00 | – | – | – | – | 7.00 ± 0.00 | 2/2 |" in markdown(table)


def test_fish_claims__faster_small_flows_and_large_ones_within_4_percent():
    def row(scheme, seed, small, large):
        figures = {"fct_us_small_mean": small, "fct_us_small_p99": small, "fct_us_large_mean": large}
        return {"scheme": label(scheme, "1ms"), "seed": seed, "valid": True, "unfinished": 0, **figures}

    table = [row("pias", seed, 100.0 + seed, 1000.0) for seed in range(5)]
    table += [row("fish", seed, 80.0 + seed, 1050.0) for seed in range(5)]
    assert [claim.holds for claim in fish_claims(table, ["1ms"])] == [True, True, True, True, False]


def test_fish_plans__both_with_the_same_marking_and_gap():
    found = plans(["1ms", "5ms"])
    assert len(found) == 4
    assert found["fish-5ms"] == {**found["pias-5ms"], "name": "fish"}
