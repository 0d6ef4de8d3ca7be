# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sluice.policy.figures.scoreboard import (
    BETTER,
    LEAST_FLOWS,
    NOT_SURE,
    WORSE,
    Applied,
    Period,
    Score,
    ScoredFlows,
    periods,
    scoreboard,
    scored,
    version_of,
)
from sluice.policy.wire.records import SIZE_CLASSES
from tests.kit.known import known

FIRST = Period(1, "dctcp", 0.0, 1000.0)
SECOND = Period(2, "pias", 1010.0, math.inf)


def flows(
    fct_us: np.ndarray[Any, Any], began_s: float = 0.0, scheme: str = "dctcp", **columns: Any
) -> ScoredFlows:
    """Small flows, one each second."""
    count = len(fct_us)
    began = began_s + np.arange(count, dtype=float)
    plain = ScoredFlows(
        began_s=began,
        ended_s=began + np.nan_to_num(fct_us) / 1e6,
        fct_us=np.asarray(fct_us, float),
        slowdown=np.asarray(fct_us, float) / 1000,
        size_class=np.zeros(count, np.uint8),
        has_deadline=np.zeros(count, bool),
        missed=np.zeros(count, bool),
        retransmissions=np.zeros(count),
        scheme=np.full(count, scheme),
    )
    return replace(plain, **columns)


def drawn(seed: int, count: int = 500, factor: float = 1.0) -> np.ndarray[Any, Any]:
    return factor * np.random.default_rng(seed).lognormal(8.0, 1.0, count)


def ends(score: Score, key: str) -> tuple[float, float]:
    figure = score.estimate(key).document()
    return known(figure["low"]), known(figure["high"])


def verdict(one: Score, other: Score, name: str = "small", figure: str = "mean_us") -> str:
    key = f"{name}.{figure}"
    return str(one.estimate(key).against(other.estimate(key))["verdict"])


def test_periods__from_the_application_to_the_next_request() -> None:
    versions = [
        Applied(1, "tcp", 0.0, 1.0),
        Applied(2, "dctcp", 10.0, None),  # replaced before it was applied
        Applied(3, "pias", 11.0, 12.0),
        Applied(4, "sluice", 13.0, 13.5),
    ]
    found = periods(versions, settle_s=2.0)
    assert found == [Period(1, "tcp", 3.0, 10.0), Period(4, "sluice", 15.5, math.inf)]


def test_under__only_flows_that_lived_wholly_under_the_version() -> None:
    period = Period(1, "dctcp", 1.0, 3.0)
    some = flows(np.asarray([5e5, 5e5, 1.5e6, 5e5]))  # they begin at 0, 1, 2 and 3 s
    assert some.under(period).tolist() == [False, True, False, False]
    other = replace(some, scheme=np.full(4, "pias"))
    assert not other.under(period).any()
    assert version_of(some, [period]).tolist() == [0, 1, 0, 0]


def test_score__figures_of_the_version() -> None:
    fct_us = np.asarray([1000.0, 3000.0, math.nan])
    some = flows(
        fct_us,
        has_deadline=np.asarray([True, True, False]),
        missed=np.asarray([True, False, False]),
        retransmissions=np.asarray([0.0, 3.0, 0.0]),
        size_class=np.asarray([0, 1, 1], np.uint8),
    )
    document = Score(FIRST, some).document()
    assert (document["flows"], document["unfinished"]) == (3, 1)
    assert (document["deadlines"], document["missed"], document["miss_ratio"]["value"]) == (2, 1, 0.5)
    assert document["retransmissions"] == 3
    assert document["retransmissions_per_flow"]["value"] == 1.0
    assert document["classes"]["small"]["mean_us"]["value"] == 1000.0
    assert document["classes"]["all"]["mean_us"]["value"] == 2000.0
    assert document["classes"]["all"]["slowdown"]["value"] == 2.0
    assert document["classes"]["large"]["mean_us"]["value"] is None
    assert document["classes"]["all"]["cdf"] == {"us": [1000.0, 3000.0], "share": [0.5, 1.0]}


def test_score__equal_flows_give_equal_intervals() -> None:
    some = flows(drawn(1))
    order = np.random.default_rng(2).permutation(500)
    assert Score(FIRST, some).document() == Score(FIRST, some.where(order)).document()


def test_mean__the_interval_covers_the_truth_in_about_95_of_100() -> None:
    truth, covered = math.exp(8.0 + 0.5), 0
    for seed in range(100):
        low, high = ends(Score(FIRST, flows(drawn(seed))), "small.mean_us")
        covered += low <= truth <= high
    assert 0.88 <= covered / 100 <= 0.99


def test_p99__the_interval_covers_the_truth_in_about_47_of_50() -> None:
    truth, covered = math.exp(8.0 + 2.3263479), 0
    for seed in range(50):
        low, high = ends(Score(FIRST, flows(drawn(seed, 1000))), "small.p99_us")
        covered += low <= truth <= high
    assert covered >= 42


def test_mean__flows_that_depend_on_their_neighbours_widen_the_interval() -> None:
    """A busy time makes all its flows slow, so such flows say less than independent ones."""
    slow = np.repeat(np.random.default_rng(3).lognormal(0, 1, 50), 100)
    mixed = np.random.default_rng(4).permutation(slow)
    wide, narrow = (ends(Score(FIRST, flows(fct_us)), "small.mean_us") for fct_us in (slow, mixed))
    assert wide[1] - wide[0] > 3 * (narrow[1] - narrow[0])


def test_verdict__better_worse_and_not_sure() -> None:
    base = Score(FIRST, flows(drawn(1)))
    faster, slower = (Score(SECOND, flows(drawn(2, factor=f), 1010.0, "pias")) for f in (0.6, 1.7))
    same = Score(SECOND, flows(drawn(2), 1010.0, "pias"))
    for figure in ("mean_us", "slowdown"):
        assert [verdict(one, base, figure=figure) for one in (faster, slower, same)] == [
            BETTER,
            WORSE,
            NOT_SURE,
        ]
    ratio = faster.document(base)["classes"]["small"]["mean_us"]["against"]
    assert ratio["low"] < 0.6 < ratio["high"]


def test_verdict__equal_schemes_differ_in_few_of_100_comparisons() -> None:
    base = [Score(FIRST, flows(drawn(seed))) for seed in range(100)]
    found = [verdict(Score(FIRST, flows(drawn(1000 + seed))), one) for seed, one in enumerate(base)]
    assert sum(one != NOT_SURE for one in found) <= 12


def test_verdict__few_flows_are_never_sure() -> None:
    few = LEAST_FLOWS - 1
    base, other = (Score(FIRST, flows(drawn(1, few, factor))) for factor in (1.0, 100.0))
    assert verdict(other, base) == NOT_SURE
    many, more = (Score(FIRST, flows(drawn(1, 100, factor))) for factor in (1.0, 100.0))
    assert verdict(more, many) == WORSE
    assert verdict(more, many, figure="p99_us") == NOT_SURE


def test_scoreboard__compares_with_the_chosen_version() -> None:
    both = [flows(drawn(1)), flows(drawn(1, factor=0.5), 1010.0, "pias")]
    joined = ScoredFlows(
        *(np.concatenate([getattr(one, name) for one in both]) for name in ScoredFlows.__dataclass_fields__)
    )
    board = scoreboard(scored(joined, [FIRST, SECOND]), 1)
    assert [one["version"] for one in board] == [1, 2]
    assert board[0]["classes"]["small"]["mean_us"]["against"] is None
    assert board[1]["classes"]["small"]["mean_us"]["against"]["ratio"] == pytest.approx(0.5)
    assert board[1]["classes"]["small"]["mean_us"]["against"]["verdict"] == BETTER
    assert all(name in board[0]["classes"] for name in (*SIZE_CLASSES, "all"))
