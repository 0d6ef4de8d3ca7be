# SPDX-License-Identifier: Apache-2.0
"""Importance and urgency: one of three endless flows has importance 1, 2, 3.

Half of every flow's precedence is its importance.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import mean, median
from typing import Any

from experiments.kit.experiment import Claim, Given, spread
from experiments.kit.flows import ListedFlows
from experiments.kit.runs import Results
from experiments.papers.datcp.common import (
    COLOURS,
    OTHER,
    Case,
    endless,
    experiment,
    in_time,
    per_run,
    setup_of,
    sized,
    throughputs,
)

PAPER_BYTES = 100_000_000
DEADLINE_S, UNTIL_S, SETTLED_S = 4.0, 7.0, 1.0
IMPORTANCES = (1, 2, 3)
IMPORTANCE_SHARE = 0.5


def cases(given: Given, seed: int) -> dict[str, Case]:
    plain: dict[str, Any] = {"importance": 1, "importance_share": IMPORTANCE_SHARE}
    size_bytes = setup_of(given).size_bytes(PAPER_BYTES)
    others = [sized(size_bytes, _timed(given), DEADLINE_S, **plain) for _ in range(3)]
    others += [endless(UNTIL_S, **plain) for _ in range(2)]
    return {
        f"importance-{importance}": Case(
            [*others, endless(UNTIL_S, "important", **plain | {"importance": importance})]
        )
        for importance in IMPORTANCES
    }


def _timed(given: Given) -> str:
    """Return the label of the flows with a deadline."""
    return in_time(setup_of(given).size_bytes(PAPER_BYTES), DEADLINE_S)


def gain(run: ListedFlows) -> float:
    """Return the important flow's throughput over the other endless flows', after the start-up."""
    important, others = (
        mean(run.mean_rate_mbps(i, SETTLED_S, UNTIL_S) for i in run.labelled(label))
        for label in ("important", "background")
    )
    return important / others


def claims(results: Results) -> list[Claim]:
    gains = {
        importance: [gain(run.listed) for run in results.runs.at(f"importance-{importance}")]
        for importance in IMPORTANCES
    }
    valid = results.runs.valid()
    rising = all(median(gains[b]) > median(gains[a]) for a, b in pairwise(IMPORTANCES))
    shares = ", ".join(f"{median(values):.2f}" for values in gains.values())
    what = "importance 1, 2, 3: share over the other endless flows' rises"
    return [
        Claim(what, "more share", shares, rising and valid),
        *(_as_predicted(importance, values, valid) for importance, values in gains.items()),
    ]


def _as_predicted(importance: int, gains: list[float], valid: bool) -> Claim:
    """Claim that the ratio is the important flow's precedence over the others', which is 1."""
    expected = IMPORTANCE_SHARE * importance + (1 - IMPORTANCE_SHARE)
    holds = abs(median(gains) - expected) <= 0.25 * expected and valid
    what = f"importance {importance}: share over the others' is the precedence (within 25 %)"
    return Claim(what, f"{expected:g}, by equation (2)", spread(gains), holds)


def numbers(results: Results) -> dict[int, Any]:
    label = _timed(results.given)
    return {
        importance: per_run(
            results.runs.at(f"importance-{importance}"),
            lambda run: {"gain": gain(run.listed), "fct_s": run.listed.fct_s(label)},
        )
        for importance in IMPORTANCES
    }


EXPERIMENT = experiment(
    10,
    "A more important DATCP flow gets a larger share of the link, also if other flows have deadlines.",
    minutes=3,
    about=__doc__,
    cases=cases,
    claims=claims,
    numbers=numbers,
    draw=throughputs(
        {f"importance-{i}": f"importance {i}" for i in IMPORTANCES}, colours={**COLOURS, "important": OTHER}
    ),
)
