# SPDX-License-Identifier: Apache-2.0
"""Convergence (Zhang et al., Fig. 9): three endless flows, then three with deadlines (100 MB in 4 s) one second apart.

A flow's weighted share is its precedence over the sum of all flows', times what the link carries. The precedence swings
around what the flow needs, within some tenths of a second: its mean over a second counts.

python -m experiments datcp_fig09 [--out DIR] [--seeds 1 2 3]
"""

from __future__ import annotations

import sys
from statistics import median
from typing import Any

import numpy as np

from experiments.kit.verdict import Claim, conclude, spread
from experiments.papers.datcp.common import (
    DATCP,
    SMALL,
    Run,
    Setup,
    column,
    document,
    endless,
    mean_rate_mbps,
    parser,
    run,
    sized,
    validity,
)
from experiments.papers.datcp.plot import BACKGROUND, DEADLINE, finish, panels, throughput

PAPER_BYTES = 100_000_000
DEADLINE_S = 4.0
STARTS_S = (1.0, 2.0, 3.0)
UNTIL_S = 9.0
NEAR = 0.25
"""A flow has its rate when it is no further from it than this part of it,"""
OVER_S = 0.3
"""over this time."""
QUICK_S = 1.0
"""What passes for "quickly"."""
DEVIATION = 0.25
"""Mean distance from the weighted shares, as part of them, up to which flows are said to have them."""
STEP_S = 0.1
MEAN_S = 1.0
"""Over which a precedence is averaged: half before, half after the time that is asked for."""
COLOURS = {"deadline 4 s": DEADLINE, "background": BACKGROUND}


def main(argv: list[str] | None = None, setup: Setup = SMALL) -> int:
    arguments = parser("datcp_fig09", __doc__, setup=setup).parse_args(argv)
    runs = [run(arguments.out, _document(seed, setup), setup) for seed in arguments.seeds]
    figure, axes = panels(1)
    throughput(axes[0], runs[0], COLOURS, "", setup=setup)
    finish(figure, axes, arguments.out / "datcp_fig09.png")
    return conclude(
        arguments.out,
        "datcp_fig09",
        [_quick(runs), _weighted(runs, setup), validity(runs)],
        _numbers(runs, setup),
    )


def _document(seed: int, setup: Setup = SMALL) -> dict[str, Any]:
    flows = [endless(UNTIL_S) for _ in range(3)]
    size_bytes = setup.size_bytes(PAPER_BYTES)
    flows += [sized(size_bytes, "deadline 4 s", DEADLINE_S, start_s=start_s) for start_s in STARTS_S]
    return document(f"convergence-seed{seed}", seed, flows, DATCP, setup)


def _shares(outcome: Run, at_s: float, setup: Setup) -> dict[int, float]:
    """Weighted share of every flow under way at a time, in Mb/s."""
    precedences = {}
    for index, flow in enumerate(outcome.flows):
        if flow.start_s <= at_s < (flow.end_s or np.inf):
            times, values = column(outcome, index, "precedence")
            near = np.abs(times - at_s) <= max(MEAN_S / 2, np.abs(times - at_s).min())
            precedences[index] = max(float(values[near].mean()), 1e-3)
    total = sum(precedences.values())
    return {index: setup.goodput_mbps * value / total for index, value in precedences.items()}


def _settling_s(outcome: Run, index: int) -> float | None:
    """From a flow's start to the end of the first OVER_S in which it has the rate that it keeps from then on."""
    start_s = outcome.flows[index].start_s
    kept = mean_rate_mbps(outcome, index, start_s + QUICK_S / 2, start_s + QUICK_S)
    for at_s in np.arange(start_s + OVER_S, start_s + QUICK_S, STEP_S):
        if abs(mean_rate_mbps(outcome, index, at_s - OVER_S, at_s) - kept) <= NEAR * kept:
            return float(at_s - start_s)
    return None


def _deviation(outcome: Run, setup: Setup) -> float:
    """Mean over time and flows of the distance from the weighted share, as part of it, while six flows run."""
    begin_s, end_s = STARTS_S[-1] + QUICK_S, min(flow.end_s or UNTIL_S for flow in outcome.flows)
    distances = []
    for at_s in np.arange(begin_s, end_s - OVER_S, OVER_S):
        for index, share in _shares(outcome, at_s + OVER_S / 2, setup).items():
            rate = mean_rate_mbps(outcome, index, at_s, at_s + OVER_S)
            distances.append(abs(rate - share) / share)
    return float(np.mean(distances))


def _settlings(runs: list[Run]) -> list[float]:
    found = [_settling_s(outcome, i) for outcome in runs for i in outcome.labelled("deadline 4 s")]
    return [UNTIL_S if settling is None else settling for settling in found]


def _quick(runs: list[Run]) -> Claim:
    settlings = _settlings(runs)
    valid = all(outcome.valid for outcome in runs)
    what = f"a new flow reaches the rate that it keeps (within {NEAR:.0%}), after seconds"
    return Claim(what, "quickly", spread(settlings), max(settlings) <= QUICK_S and valid)


def _weighted(runs: list[Run], setup: Setup) -> Claim:
    deviations = [_deviation(outcome, setup) for outcome in runs]
    valid = all(outcome.valid for outcome in runs)
    what = f"mean distance from the weighted shares over {OVER_S:g} s, as part of them"
    return Claim(what, "converge to them", spread(deviations), median(deviations) <= DEVIATION and valid)


def _numbers(runs: list[Run], setup: Setup) -> list[dict[str, Any]]:
    return [
        {
            "fct_s": [outcome.flows[i].fct_s for i in outcome.labelled("deadline 4 s")],
            "settling_s": [_settling_s(outcome, i) for i in outcome.labelled("deadline 4 s")],
            "deviation": _deviation(outcome, setup),
            "retransmissions": outcome.retransmissions,
            "timeouts": outcome.timeouts,
            "valid": outcome.valid,
        }
        for outcome in runs
    ]


if __name__ == "__main__":
    sys.exit(main())
