# SPDX-License-Identifier: Apache-2.0
"""A priority is no deadline: three flows of fixed precedence 3, with three and with six endless flows."""

from __future__ import annotations

from statistics import median
from typing import Any

from experiments.kit.experiment import Claim, Given, spread
from experiments.kit.runs import Results, Run
from experiments.papers.datcp.common import (
    COLOURS,
    OTHER,
    Case,
    endless,
    experiment,
    per_run,
    setup_of,
    sized,
    throughputs,
)

PAPER_BYTES = 100_000_000
PRIORITY, LABEL = 3, "priority 3"
UNTIL_S = 7.0
BACKGROUNDS = (3, 6)
VARIES = 1.1
"""Completion times vary if their ratio is at least this."""


def cases(given: Given, seed: int) -> dict[str, Case]:
    size_bytes = setup_of(given).size_bytes(PAPER_BYTES)
    timed = [sized(size_bytes, LABEL, importance=PRIORITY, importance_share=1.0) for _ in range(3)]
    return {f"background-{n}": Case([*timed, *(endless(UNTIL_S) for _ in range(n))]) for n in BACKGROUNDS}


def _times_s(run: Run) -> list[float]:
    return [fct_s for fct_s in run.listed.fct_s(LABEL) if fct_s is not None]


def claims(results: Results) -> list[Claim]:
    few, many = (
        [time_s for run in results.runs.at(f"background-{count}") for time_s in _times_s(run)]
        for count in BACKGROUNDS
    )
    holds = median(many) >= VARIES * median(few) and results.runs.valid()
    measured = f"{spread(few)} s, {spread(many)} s"
    return [Claim("completion time with 3, 6 background flows", "varies", measured, holds)]


def numbers(results: Results) -> dict[int, Any]:
    return {
        count: {
            "predicted_s": _predicted_s(count, results.given),
            "runs": per_run(results.runs.at(f"background-{count}"), lambda run: {"fct_s": _times_s(run)}),
        }
        for count in BACKGROUNDS
    }


def _predicted_s(count: int, given: Given) -> float:
    """Return the completion time if shares were exactly proportional to the priorities."""
    setup, share = setup_of(given), PRIORITY / (3 * PRIORITY + count)
    return setup.size_bytes(PAPER_BYTES) * 8e-6 / (share * setup.goodput_mbps)


EXPERIMENT = experiment(
    12,
    "A fixed priority meets no deadline: the completion time varies with the other flows.",
    minutes=2,
    about=__doc__,
    cases=cases,
    claims=claims,
    numbers=numbers,
    draw=throughputs(
        {f"background-{count}": f"{count} background flows" for count in BACKGROUNDS},
        colours={**COLOURS, LABEL: OTHER},
    ),
)
