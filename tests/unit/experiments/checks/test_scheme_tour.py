# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.checks.scheme_tour import compare
from experiments.checks.scheme_tour.run import order
from experiments.kit.main import main
from experiments.kit.runs import Runs
from tests.kit.finished_runs import run_of

OURS = {"a": [1.0, 2.0], "b": [3.0, 4.0], "c": [5.0, 6.0]}


def test_order__best_first_by_the_mean() -> None:
    runs = Runs([run_of(s, seed=i, x=v) for s in ("c", "a", "b") for i, v in enumerate(OURS[s])])
    assert order(runs, "x") == ["a", "b", "c"]


def test_claim__the_same_order_on_another_scale_agrees() -> None:
    claim = compare.claim_of("x", OURS, {scheme: [10 * v for v in values] for scheme, values in OURS.items()})
    assert claim.holds
    assert claim.measured == "3 of 3"


def test_claim__a_pair_of_which_both_are_sure_is_named() -> None:
    claim = compare.claim_of("x", OURS, {"a": [3.0, 4.0], "b": [1.0, 2.0], "c": [5.0, 6.0]})
    assert not claim.holds
    assert claim.measured == "2 of 3; not a and b"


def test_claim__where_one_fabric_is_not_sure_there_is_no_order() -> None:
    claim = compare.claim_of("x", OURS, {"a": [3.0, 1.0], "b": [1.0, 4.0], "c": [5.0, 6.0]})
    assert claim.holds
    assert claim.measured == "2 of 2"


def test_surely_less__seed_by_seed_though_seeds_differ_by_more() -> None:
    assert compare.surely_less([1.0, 10.0], [2.0, 20.0]) == 1
    assert compare.surely_less([2.0, 20.0], [1.0, 10.0]) == -1
    assert compare.surely_less([1.0, 20.0], [2.0, 10.0]) == 0


def test_surely_less__one_seed_proves_nothing_and_a_hairs_breadth_neither() -> None:
    assert compare.surely_less([1.0], [2.0]) == 0
    assert compare.surely_less([1.0, 1.0], [1.02, 1.02]) == 0
    assert compare.surely_less([0.0, 0.0], [0.0, 0.0]) == 0


def compared(out: Path, missed: Sequence[float | None]) -> list[dict[str, Any]]:
    """Return the claims about two equal verdicts, of which the second has these misses."""
    for folder in ("ours", "theirs"):
        (out / folder).mkdir()
        numbers: dict[str, dict[str, Sequence[float | None]]] = {
            scheme: dict.fromkeys(compare.FIGURES.values(), values) for scheme, values in OURS.items()
        }
        if folder == "theirs":
            numbers = {scheme: figures | {"miss_ratio": missed} for scheme, figures in numbers.items()}
        (out / folder / "verdict.json").write_text(
            json.dumps({"experiment": "scheme_tour", "claims": [], "numbers": numbers})
        )
    words = [str(out / "ours"), str(out / "theirs"), "--out", str(out / "both")]
    assert main(compare.EXPERIMENT, words) == 0
    claims: list[dict[str, Any]] = json.loads((out / "both" / "verdict.json").read_text())["claims"]
    return claims


def test_scheme_order__reads_two_verdicts(tmp_path: Path) -> None:
    assert len(compared(tmp_path, [0.1, 0.2])) == len(compare.FIGURES)


def test_scheme_order__a_figure_that_a_run_does_not_have_is_left_out(tmp_path: Path) -> None:
    assert len(compared(tmp_path, [None, None])) == len(compare.FIGURES) - 1


def test_scheme_order__says_where_no_verdict_is(tmp_path: Path) -> None:
    assert main(compare.EXPERIMENT, [str(tmp_path), str(tmp_path), "--out", str(tmp_path / "both")]) == 2
