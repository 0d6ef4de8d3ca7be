# SPDX-License-Identifier: Apache-2.0
"""Weighted shares of DATCP's flows: their convergence, and their importance."""

from itertools import pairwise
from statistics import mean, median
from typing import Any

import numpy as np

from experiments.kit.experiment import Claim, Given, spread
from experiments.kit.flows import ListedFlows
from experiments.kit.runs import Results, Run
from experiments.papers.datcp import common

FIG09_ABOUT = """\
Convergence: three endless flows, then three with deadlines (100 MB in 4 s) one second apart.

A flow's weighted share is its precedence over the sum of all precedences, times the link's payload
rate. The precedence swings around the flow's need within some tenths of a second, so its mean over
a second counts."""

PAPER_BYTES = 100_000_000
LABEL = "deadline 4 s"
FIG09_DEADLINE_S, STARTS_S, FIG09_UNTIL_S = 4.0, (1.0, 2.0, 3.0), 9.0
NEAR, OVER_S = 0.25, 0.3
"""A flow has its rate if it is within this part of it, over this time."""
QUICK_S = 1.0
"""The longest time that counts as "quickly"."""
DEVIATION = 0.25
"""The greatest mean distance from the weighted shares, as a part of a share."""
STEP_S, MEAN_S = 0.1, 1.0
"""Precedences are averaged over MEAN_S, half before and half after the time in question."""


def fig09_cases(given: Given, seed: int) -> dict[str, common.Case]:
    size_bytes = common.setup_of(given).size_bytes(PAPER_BYTES)
    timed = [common.sized(size_bytes, LABEL, FIG09_DEADLINE_S, start_s=start_s) for start_s in STARTS_S]
    return {"convergence": common.Case([*(common.endless(FIG09_UNTIL_S) for _ in range(3)), *timed])}


def fig09_claims(results: Results) -> list[Claim]:
    settlings = [
        FIG09_UNTIL_S if s is None else s for run in results.runs.runs for s in settling_s(run.listed)
    ]
    goodput_mbps = common.setup_of(results.given).goodput_mbps
    deviations = [_deviation(run.listed, goodput_mbps) for run in results.runs.runs]
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


def _deviation(run: ListedFlows, goodput_mbps: float) -> float:
    """Return the mean distance from the weighted share, as a part of it, while six flows run."""
    begin_s, end_s = STARTS_S[-1] + QUICK_S, min(flow.end_s or FIG09_UNTIL_S for flow in run.flows)
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


def fig09_numbers(results: Results) -> list[dict[str, Any]]:
    goodput_mbps = common.setup_of(results.given).goodput_mbps

    def figures(run: Run) -> dict[str, Any]:
        settling = settling_s(run.listed)
        deviation = _deviation(run.listed, goodput_mbps)
        return {"fct_s": run.listed.fct_s(LABEL), "settling_s": settling, "deviation": deviation}

    return common.per_run(results.runs.runs, figures)


FIG09 = common.experiment(
    9,
    "New DATCP flows converge to their weighted shares within a second.",
    minutes=1,
    about=FIG09_ABOUT,
    cases=fig09_cases,
    claims=fig09_claims,
    numbers=fig09_numbers,
    draw=common.throughputs({"convergence": ""}),
)


FIG10_ABOUT = """\
Importance and urgency: one of three endless flows has importance 1, 2, 3.

Half of every flow's precedence is its importance."""

FIG10_DEADLINE_S, FIG10_UNTIL_S, SETTLED_S = 4.0, 7.0, 1.0
IMPORTANCES = (1, 2, 3)
IMPORTANCE_SHARE = 0.5


def fig10_cases(given: Given, seed: int) -> dict[str, common.Case]:
    plain: dict[str, Any] = {"importance": 1, "importance_share": IMPORTANCE_SHARE}
    size_bytes = common.setup_of(given).size_bytes(PAPER_BYTES)
    others = [common.sized(size_bytes, _timed(given), FIG10_DEADLINE_S, **plain) for _ in range(3)]
    others += [common.endless(FIG10_UNTIL_S, **plain) for _ in range(2)]
    return {
        f"importance-{importance}": common.Case(
            [*others, common.endless(FIG10_UNTIL_S, "important", **plain | {"importance": importance})]
        )
        for importance in IMPORTANCES
    }


def _timed(given: Given) -> str:
    """Return the label of the flows with a deadline."""
    return common.in_time(common.setup_of(given).size_bytes(PAPER_BYTES), FIG10_DEADLINE_S)


def gain(run: ListedFlows) -> float:
    """Return the important flow's throughput over the other endless flows', after the start-up."""
    important, others = (
        mean(run.mean_rate_mbps(i, SETTLED_S, FIG10_UNTIL_S) for i in run.labelled(label))
        for label in ("important", "background")
    )
    return important / others


def fig10_claims(results: Results) -> list[Claim]:
    gains = {
        importance: [gain(run.listed) for run in results.runs.at(f"importance-{importance}")]
        for importance in IMPORTANCES
    }
    valid = results.runs.valid()
    rising = all(median(gains[b]) > median(gains[a]) for a, b in pairwise(IMPORTANCES))
    shares = ", ".join(f"{median(values):.2f}" for values in gains.values())
    what = "importance 1, 2, 3: share over the other endless flows' rises"
    verdict = [Claim(what, "more share", shares, rising and valid)]
    for importance, values in gains.items():
        expected = IMPORTANCE_SHARE * importance + (1 - IMPORTANCE_SHARE)  # the others' precedence is 1
        holds = abs(median(values) - expected) <= 0.25 * expected and valid
        what = f"importance {importance}: share over the others' is the precedence (within 25 %)"
        verdict.append(Claim(what, f"{expected:g}, by equation (2)", spread(values), holds))
    return verdict


def fig10_numbers(results: Results) -> dict[int, Any]:
    label = _timed(results.given)
    return {
        importance: common.per_run(
            results.runs.at(f"importance-{importance}"),
            lambda run: {"gain": gain(run.listed), "fct_s": run.listed.fct_s(label)},
        )
        for importance in IMPORTANCES
    }


FIG10 = common.experiment(
    10,
    "A more important DATCP flow gets a larger share of the link, also if other flows have deadlines.",
    minutes=3,
    about=FIG10_ABOUT,
    cases=fig10_cases,
    claims=fig10_claims,
    numbers=fig10_numbers,
    draw=common.throughputs(
        {f"importance-{i}": f"importance {i}" for i in IMPORTANCES},
        colours={**common.COLOURS, "important": common.OTHER},
    ),
)
