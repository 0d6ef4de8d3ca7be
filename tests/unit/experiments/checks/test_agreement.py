# SPDX-License-Identifier: Apache-2.0
"""One schedule on both fabrics: when the two agree, and the order of schemes on both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.checks import scheme_tour
from experiments.checks.agreement import (
    idle_document,
    on_simulator,
    same_flows,
)
from experiments.kit.main import main
from experiments.kit.runners import NamedPoint


def test_same_flows__by_size_and_start(tmp_path: Path) -> None:
    document = {**idle_document(), "workload": {**idle_document()["workload"], "flows": 20}}

    def bundle(name: str, delay_us: float, **changed: Any) -> Path:
        point = NamedPoint("idle", None, 1, {**document, **changed}, name)
        return on_simulator(point, tmp_path, delay_us).bundle

    one, again, other = bundle("one", 0.0), bundle("again", 50.0), bundle("other", 0.0, seed=2)
    assert same_flows(one, again)
    assert not same_flows(one, other)


OURS = {"a": [1.0, 2.0], "b": [3.0, 4.0], "c": [5.0, 6.0]}


def test_claim__a_pair_of_which_both_are_sure_is_named() -> None:
    claim = scheme_tour.claim_of("x", OURS, {"a": [3.0, 4.0], "b": [1.0, 2.0], "c": [5.0, 6.0]})
    assert not claim.holds
    assert claim.measured == "2 of 3; not a and b"


def test_surely_less__seed_by_seed_though_seeds_differ_by_more_and_one_seed_proves_nothing() -> None:
    assert scheme_tour.surely_less([1.0, 10.0], [2.0, 20.0]) == 1
    assert scheme_tour.surely_less([2.0, 20.0], [1.0, 10.0]) == -1
    assert scheme_tour.surely_less([1.0, 20.0], [2.0, 10.0]) == 0
    assert scheme_tour.surely_less([1.0], [2.0]) == 0


@pytest.mark.parametrize(("missed", "left_out"), [([0.1, 0.2], 0), ([None, None], 1)])
def test_scheme_order__reads_two_verdicts_and_leaves_out_a_figure_that_one_lacks(
    tmp_path: Path, missed: list[float | None], left_out: int
) -> None:
    columns = scheme_tour.ORDER_FIGURES.values()
    ours: dict[str, dict[str, Any]] = {
        scheme: dict.fromkeys(columns, values) for scheme, values in OURS.items()
    }
    theirs = {scheme: figures | {"miss_ratio": missed} for scheme, figures in ours.items()}
    for folder, numbers in (("ours", ours), ("theirs", theirs)):
        (tmp_path / folder).mkdir()
        document = {"experiment": "scheme_tour", "claims": [], "numbers": numbers}
        (tmp_path / folder / "verdict.json").write_text(json.dumps(document))
    words = [str(tmp_path / "ours"), str(tmp_path / "theirs"), "--out", str(tmp_path / "both")]
    assert main(scheme_tour.ORDER, words) == 0
    claims = json.loads((tmp_path / "both" / "verdict.json").read_text())["claims"]
    assert len(claims) == len(columns) - left_out
