# SPDX-License-Identifier: Apache-2.0
"""Convergence: three endless flows, then three with deadlines (100 MB in 4 s) one second apart.

A flow's weighted share is its precedence over the sum of all precedences, times the link's payload
rate. The precedence swings around the flow's need within some tenths of a second, so its mean over
a second counts.
"""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np

from experiments.kit.experiment import Claim, Given, spread
from experiments.kit.flows import ListedFlows
from experiments.kit.runs import Results, Run
from experiments.papers.datcp.common import Case, endless, experiment, per_run, setup_of, sized, throughputs

PAPER_BYTES = 100_000_000
LABEL = "deadline 4 s"
DEADLINE_S, STARTS_S, UNTIL_S = 4.0, (1.0, 2.0, 3.0), 9.0
NEAR, OVER_S = 0.25, 0.3
"""A flow has its rate if it is within this part of it, over this time."""
QUICK_S = 1.0
"""The longest time that counts as "quickly"."""
DEVIATION = 0.25
"""The greatest mean distance from the weighted shares, as a part of a share."""
STEP_S, MEAN_S = 0.1, 1.0
"""Precedences are averaged over MEAN_S, half before and half after the time in question."""


def cases(given: Given, seed: int) -> dict[str, Case]:
    size_bytes = setup_of(given).size_bytes(PAPER_BYTES)
    timed = [sized(size_bytes, LABEL, DEADLINE_S, start_s=start_s) for start_s in STARTS_S]
    return {"convergence": Case([*(endless(UNTIL_S) for _ in range(3)), *timed])}


def claims(results: Results) -> list[Claim]:
    settlings = [UNTIL_S if s is None else s for run in results.runs.runs for s in settling_s(run.listed)]
    deviations = _deviations(results)
    valid = results.runs.valid()
    return [
        Claim(
            f"a new flow reaches the rate that it keeps (within {NEAR:.0%}), after seconds",
            "quickly",
            spread(settlings),
            max(settlings) <= QUICK_S and valid,
        ),
        Claim(
            f"mean distance from the weighted shares over {OVER_S:g} s, as part of them",
            "converge to them",
            spread(deviations),
            median(deviations) <= DEVIATION and valid,
        ),
    ]


def settling_s(run: ListedFlows) -> list[float | None]:
    """Return for each new flow the time from its start to the end of the first OVER_S with the
    rate that it keeps."""
    return [_settling_s(run, i) for i in run.labelled(LABEL)]


def _settling_s(run: ListedFlows, index: int) -> float | None:
    start_s = run.flows[index].start_s
    kept = run.mean_rate_mbps(index, start_s + QUICK_S / 2, start_s + QUICK_S)
    for at_s in np.arange(start_s + OVER_S, start_s + QUICK_S, STEP_S):
        if abs(run.mean_rate_mbps(index, at_s - OVER_S, at_s) - kept) <= NEAR * kept:
            return float(at_s - start_s)
    return None


def _deviations(results: Results) -> list[float]:
    goodput_mbps = setup_of(results.given).goodput_mbps
    return [_deviation(run.listed, goodput_mbps) for run in results.runs.runs]


def _deviation(run: ListedFlows, goodput_mbps: float) -> float:
    """Return the mean distance from the weighted share, as a part of it, while six flows run."""
    begin_s, end_s = STARTS_S[-1] + QUICK_S, min(flow.end_s or UNTIL_S for flow in run.flows)
    distances = []
    for at_s in np.arange(begin_s, end_s - OVER_S, OVER_S):
        for index, share in _shares(run, at_s + OVER_S / 2, goodput_mbps).items():
            distances.append(abs(run.mean_rate_mbps(index, at_s, at_s + OVER_S) - share) / share)
    return float(np.mean(distances))


def _shares(run: ListedFlows, at_s: float, goodput_mbps: float) -> dict[int, float]:
    """Return the weighted share of every active flow at a time, in Mb/s."""
    precedences = {}
    for index, flow in enumerate(run.flows):
        if flow.start_s <= at_s < (flow.end_s or np.inf):
            times, values = run.column(index, "precedence")
            near = np.abs(times - at_s) <= max(MEAN_S / 2, np.abs(times - at_s).min())
            precedences[index] = max(float(values[near].mean()), 1e-3)
    total = sum(precedences.values())
    return {index: goodput_mbps * value / total for index, value in precedences.items()}


def numbers(results: Results) -> list[dict[str, Any]]:
    goodput_mbps = setup_of(results.given).goodput_mbps

    def figures(run: Run) -> dict[str, Any]:
        settling = settling_s(run.listed)
        deviation = _deviation(run.listed, goodput_mbps)
        return {"fct_s": run.listed.fct_s(LABEL), "settling_s": settling, "deviation": deviation}

    return per_run(results.runs.runs, figures)


EXPERIMENT = experiment(
    9,
    "New DATCP flows converge to their weighted shares within a second.",
    minutes=1,
    about=__doc__,
    cases=cases,
    claims=claims,
    numbers=numbers,
    draw=throughputs({"convergence": ""}),
)
