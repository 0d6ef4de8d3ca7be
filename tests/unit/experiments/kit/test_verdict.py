# SPDX-License-Identifier: Apache-2.0
"""A verdict as JSON, as an exit code, and as a table; the claims in it, and their intervals."""

import json
from pathlib import Path

import numpy as np
import pytest

from experiments.kit.experiment import Claim, claims_table, conclude, read_verdict
from experiments.kit.runs import (
    Changes,
    Difference,
    Runs,
    all_finished,
    all_valid,
    difference,
    with_interval,
)
from tests.kit.bundles import run_of

GOOD, BAD = Claim("a", "b", "c", True), Claim("d", "e", "f", False)


def test_conclude__exit_code_says_whether_a_claim_failed_unexplained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert conclude(tmp_path, "x", [GOOD], {}) == 0
    assert conclude(tmp_path, "x", [Claim("a", "b", "c", False, "the queue conserves work")], {}) == 0
    assert "the queue conserves work" in capsys.readouterr().out
    assert conclude(tmp_path, "x", [GOOD, BAD], {}) == 1
    document = json.loads((tmp_path / "verdict.json").read_text())
    assert (document["claims"][1]["holds"], document["quick"]) == (False, False)


def test_conclude__a_quick_verdict_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert conclude(tmp_path, "x", [GOOD, BAD], {}, quick=True) == 0
    assert "without --quick" in " ".join(capsys.readouterr().out.split())
    assert read_verdict(tmp_path)["quick"] is True
    assert "| x (quick) | a | b | c | yes |" in claims_table([read_verdict(tmp_path)])


def change(mean: float) -> Difference:
    return Difference(mean, mean - 0.01, mean + 0.01, 5, 0.0)


def test_all_valid__an_invalid_run_and_an_unfinished_flow_are_told_apart() -> None:
    good, bad, slow = run_of("a"), run_of("a", valid=False), run_of("a", unfinished=3)
    assert [claim.holds for claim in all_valid(Runs([good]))] == [True, True]
    assert [claim.holds for claim in all_valid(Runs([good, bad]))] == [False, True]
    assert [claim.holds for claim in all_valid(Runs([slow]))] == [True, False]
    assert all_finished(Runs([slow])).measured == "3"


def test_difference__is_of_the_means_not_a_mean_of_ratios() -> None:
    found = difference([2.0, 10.0], [1.0, 10.0])
    assert found.mean == pytest.approx(12 / 11 - 1)
    assert found.seeds == 2
    alone = difference([1.0], [2.0])
    assert not alone.lower, "one seed proves nothing"
    assert str(alone) == "−50.0 % (one seed)"


def test_with_interval__of_three_seeds_and_of_one() -> None:
    assert with_interval([1.0, 2.0, 3.0]) == "2.00 ± 2.48", "4.303 deviations over the root of 3"
    assert with_interval([2.0]) == "2.00"


def test_difference__covers_the_truth_about_as_often_as_it_says() -> None:
    """1000 experiments of 20 seeds, ours 10 % above: about 95 % of the intervals contain +10 %."""
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(1000):
        theirs = rng.gamma(4.0, size=20)
        found = difference(list(1.1 * theirs * rng.normal(1, 0.1, 20)), list(theirs))
        held += found.low <= 0.1 <= found.high
    assert 910 <= held <= 980


def test_changes__at_every_load_and_growing_with_it() -> None:
    changes = Changes({0.5: change(-0.2), 0.9: change(-0.5)})
    assert changes.lower
    assert changes.grows
    assert not changes.within(0.3)
    assert str(changes) == "−20.0 % at 50 % … −50.0 % at 90 %"
    assert not Changes({0.5: change(-0.005), 0.9: change(-0.5)}).lower
    assert not Changes({0.5: change(-0.5), 0.9: change(-0.5)}).grows
