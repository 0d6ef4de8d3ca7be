# SPDX-License-Identifier: Apache-2.0
"""Quenching: four flows of 200 MB with a deadline of 6 s are more than the link can carry."""

from __future__ import annotations

from statistics import median
from typing import Any

from experiments.kit.experiment import Claim, Given
from experiments.kit.runs import Results, Run
from experiments.papers.datcp.common import Case, experiment, in_time, per_run, setup_of, sized, throughputs

PAPER_BYTES = 200_000_000
DEADLINE_S = 6.0
FLOWS = 4
VARIANTS = {"never": "without quenching", "kill": "with quenching"}
EXPECTED = {"never": 0, "kill": FLOWS - 1}
"""Variant → the expected number of flows that meet the deadline."""
EXPLANATIONS = {
    "never": "urgencies rise together without end, and shares differ by chance: a flow may get so far ahead that it "
    "needs no more than it gets",
    "kill": "flows that start together may be quenched together, before they notice the share that the first one freed",
}
"""Why a run may differ from the expectation."""


def cases(given: Given, seed: int) -> dict[str, Case]:
    size_bytes = setup_of(given).size_bytes(PAPER_BYTES)
    label = in_time(size_bytes, DEADLINE_S)
    return {q: Case([sized(size_bytes, label, DEADLINE_S, quench=q)] * FLOWS) for q in VARIANTS}


def claims(results: Results) -> list[Claim]:
    return [_claim(results, quench) for quench in VARIANTS]


def _claim(results: Results, quench: str) -> Claim:
    counts = [_met(run) for run in results.runs.at(quench)]
    holds = median(counts) == EXPECTED[quench] and results.runs.valid(quench)
    measured = f"{median(counts):g} ({', '.join(map(str, counts))})"
    what = f"{VARIANTS[quench]}: flows of {FLOWS} that meet 6 s, median (runs)"
    return Claim(what, str(EXPECTED[quench]), measured, holds, EXPLANATIONS[quench])


def _met(run: Run) -> int:
    return sum(bool(flow.met) for flow in run.listed.flows)


def numbers(results: Results) -> dict[str, Any]:
    return {
        quench: per_run(
            results.runs.at(quench),
            lambda run: {"met": _met(run), "flows": [str(flow) for flow in run.listed.flows]},
        )
        for quench in VARIANTS
    }


EXPERIMENT = experiment(
    11,
    "Of four flows that cannot all meet their deadline, quenching one lets three meet it.",
    minutes=4,
    about=__doc__,
    seeds=(1, 2, 3, 4, 5),
    cases=cases,
    claims=claims,
    numbers=numbers,
    draw=throughputs(VARIANTS),
)
