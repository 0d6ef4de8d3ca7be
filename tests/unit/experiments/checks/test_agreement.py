# SPDX-License-Identifier: Apache-2.0
"""One schedule on both fabrics: when the two agree, and the order of schemes on both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.checks import scheme_tour
from experiments.checks.agreement import (
    Pair,
    Side,
    claims_of,
    idle_document,
    on_simulator,
    same_flows,
    settling_claim,
)
from experiments.kit.main import main
from experiments.kit.runners import NamedPoint


def side(small_ms: Sequence[float], medium_ms: Sequence[float], *, valid: bool = True) -> Side:
    fct = np.asarray([*small_ms, *medium_ms], float)
    classes = np.asarray(["small"] * len(small_ms) + ["medium"] * len(medium_ms))
    return Side(classes, fct, fct / 2, 0, valid)


def pair(factor: float, *, valid: bool = True) -> Pair:
    testbed = side([2.0, 6.0], [100.0, 200.0], valid=valid)
    return Pair(testbed, side([2 * factor, 6 * factor], [100.0, 200.0]))


def test_claims__hold_within_the_tolerance() -> None:
    assert [claim.holds for claim in claims_of({"dctcp": [pair(1.2)] * 3})] == [True, True]
    assert [claim.holds for claim in claims_of({"dctcp": [pair(1.3)] * 3})] == [False, True]


def test_claims__a_run_that_is_not_valid_proves_nothing() -> None:
    made = claims_of({"dctcp": [pair(1.0), pair(1.0, valid=False)]})
    assert not any(claim.holds for claim in made)


def test_same_flows__by_size_and_start(tmp_path: Path) -> None:
    document = {**idle_document(), "workload": {**idle_document()["workload"], "flows": 20}}

    def bundle(name: str, delay_us: float, **changed: Any) -> Path:
        point = NamedPoint("idle", None, 1, {**document, **changed}, name)
        return on_simulator(point, tmp_path, delay_us).bundle

    one, again, other = bundle("one", 0.0), bundle("again", 50.0), bundle("other", 0.0, seed=2)
    assert same_flows(one, again)
    assert not same_flows(one, other)


def test_settling_claim__two_adjustments_apart_at_most() -> None:
    assert settling_claim("adaptive", [(0.4, 0.5), (0.4, 1.0)], 0.5).holds
    assert not settling_claim("adaptive", [(0.4, 1.5)], 0.5).holds
    assert not settling_claim("adaptive", [(0.4, None)], 0.5).holds


OURS = {"a": [1.0, 2.0], "b": [3.0, 4.0], "c": [5.0, 6.0]}


def test_claim__a_pair_of_which_both_are_sure_is_named() -> None:
    claim = scheme_tour.claim_of("x", OURS, {"a": [3.0, 4.0], "b": [1.0, 2.0], "c": [5.0, 6.0]})
    assert not claim.holds
    assert claim.measured == "2 of 3; not a and b"


def test_claim__where_one_fabric_is_not_sure_there_is_no_order() -> None:
    claim = scheme_tour.claim_of("x", OURS, {"a": [3.0, 1.0], "b": [1.0, 4.0], "c": [5.0, 6.0]})
    assert claim.holds
    assert claim.measured == "2 of 2"


def test_surely_less__seed_by_seed_though_seeds_differ_by_more() -> None:
    assert scheme_tour.surely_less([1.0, 10.0], [2.0, 20.0]) == 1
    assert scheme_tour.surely_less([2.0, 20.0], [1.0, 10.0]) == -1
    assert scheme_tour.surely_less([1.0, 20.0], [2.0, 10.0]) == 0


def test_surely_less__one_seed_proves_nothing_and_a_hairs_breadth_neither() -> None:
    assert scheme_tour.surely_less([1.0], [2.0]) == 0
    assert scheme_tour.surely_less([1.0, 1.0], [1.02, 1.02]) == 0
    assert scheme_tour.surely_less([0.0, 0.0], [0.0, 0.0]) == 0


def compared(out: Path, missed: Sequence[float | None]) -> list[dict[str, Any]]:
    """Return the claims about two equal verdicts, of which the second has these misses."""
    for folder in ("ours", "theirs"):
        (out / folder).mkdir()
        numbers: dict[str, dict[str, Sequence[float | None]]] = {
            scheme: dict.fromkeys(scheme_tour.ORDER_FIGURES.values(), values)
            for scheme, values in OURS.items()
        }
        if folder == "theirs":
            numbers = {scheme: figures | {"miss_ratio": missed} for scheme, figures in numbers.items()}
        (out / folder / "verdict.json").write_text(
            json.dumps({"experiment": "scheme_tour", "claims": [], "numbers": numbers})
        )
    words = [str(out / "ours"), str(out / "theirs"), "--out", str(out / "both")]
    assert main(scheme_tour.ORDER, words) == 0
    claims: list[dict[str, Any]] = json.loads((out / "both" / "verdict.json").read_text())["claims"]
    return claims


def test_scheme_order__reads_two_verdicts(tmp_path: Path) -> None:
    assert len(compared(tmp_path, [0.1, 0.2])) == len(scheme_tour.ORDER_FIGURES)


def test_scheme_order__a_figure_that_a_run_does_not_have_is_left_out(tmp_path: Path) -> None:
    assert len(compared(tmp_path, [None, None])) == len(scheme_tour.ORDER_FIGURES) - 1
