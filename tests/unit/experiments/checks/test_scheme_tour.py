# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

from experiments.checks.scheme_tour import compare
from experiments.checks.scheme_tour.run import order

OURS = {"a": [1.0, 2.0], "b": [3.0, 4.0], "c": [5.0, 6.0]}


def test_order__best_first_by_the_mean():
    table = [{"scheme": s, "seed": i, "x": v} for s, values in OURS.items() for i, v in enumerate(values)]
    assert order(table, ["c", "a", "b"], "x") == ["a", "b", "c"]


def test_claim__the_same_order_on_another_scale_agrees():
    claim = compare.claim_of("x", OURS, {scheme: [10 * v for v in values] for scheme, values in OURS.items()})
    assert claim.holds
    assert claim.measured == "3 of 3"


def test_claim__a_pair_of_which_both_are_sure_is_named():
    claim = compare.claim_of("x", OURS, {"a": [3.0, 4.0], "b": [1.0, 2.0], "c": [5.0, 6.0]})
    assert not claim.holds
    assert claim.measured == "2 of 3; not a and b"


def test_claim__where_one_fabric_is_not_sure_there_is_no_order():
    claim = compare.claim_of("x", OURS, {"a": [3.0, 1.0], "b": [1.0, 4.0], "c": [5.0, 6.0]})
    assert claim.holds
    assert claim.measured == "2 of 2"


def test_surely_less__seed_by_seed_though_seeds_differ_by_more():
    assert compare.surely_less([1.0, 10.0], [2.0, 20.0]) == 1
    assert compare.surely_less([2.0, 20.0], [1.0, 10.0]) == -1
    assert compare.surely_less([1.0, 20.0], [2.0, 10.0]) == 0


def test_surely_less__one_seed_proves_nothing_and_a_hairs_breadth_neither():
    assert compare.surely_less([1.0], [2.0]) == 0
    assert compare.surely_less([1.0, 1.0], [1.02, 1.02]) == 0
    assert compare.surely_less([0.0, 0.0], [0.0, 0.0]) == 0


def test_main__reads_two_verdicts(tmp_path):
    for folder in ("ours", "theirs"):
        (tmp_path / folder).mkdir()
        numbers = {s: dict.fromkeys(compare.FIGURES.values(), values) for s, values in OURS.items()}
        (tmp_path / folder / "verdict.json").write_text(json.dumps({"numbers": numbers}))
    asked = [str(tmp_path / "ours"), str(tmp_path / "theirs"), "--out", str(tmp_path / "out")]
    assert compare.main(asked) == 0
    assert len(json.loads((tmp_path / "out" / "verdict.json").read_text())["claims"]) == len(compare.FIGURES)


def test_main__a_figure_that_a_run_does_not_have_is_left_out(tmp_path):
    for folder, missed in (("ours", [0.0, 0.1]), ("theirs", [None, None])):
        (tmp_path / folder).mkdir()
        numbers = {
            s: dict.fromkeys(compare.FIGURES.values(), v) | {"miss_ratio": missed} for s, v in OURS.items()
        }
        (tmp_path / folder / "verdict.json").write_text(json.dumps({"numbers": numbers}))
    assert (
        compare.main([str(tmp_path / "ours"), str(tmp_path / "theirs"), "--out", str(tmp_path / "out")]) == 0
    )
    claims = json.loads((tmp_path / "out" / "verdict.json").read_text())["claims"]
    assert len(claims) == len(compare.FIGURES) - 1
