# SPDX-License-Identifier: Apache-2.0
"""Convergence (Zhang et al., Fig. 9): three endless flows, then three with deadlines (10 MB in 4 s) one second apart.

A flow's weighted share is its precedence over the sum of all flows', times what the link carries.

python -m experiments.datcp_fig09.run [--out DIR] [--seeds 1 2 3]
"""

from __future__ import annotations

import sys
from statistics import median
from typing import Any

import numpy as np

from experiments.datcp.common import (
    DATCP,
    GOODPUT_MBPS,
    Run,
    column,
    document,
    endless,
    mean_rate_mbps,
    parser,
    run,
    sized,
    validity,
)
from experiments.datcp.plot import BACKGROUND, DEADLINE, finish, panels, throughput
from experiments.verdict import Claim, conclude, spread

SIZE_BYTES = 10_000_000
DEADLINE_S = 4.0
STARTS_S = (1.0, 2.0, 3.0)
UNTIL_S = 9.0
NEAR = 0.25
"""A flow has its share when it is no further from it than this part of it,"""
OVER_S = 0.3
"""over this time."""
QUICK_S = 1.0
"""What passes for "quickly"."""
DEVIATION = 0.25
"""Mean distance from the weighted shares, as part of them, up to which flows are said to have them."""
STEP_S = 0.1


def main(argv: list[str] | None = None) -> int:
    arguments = parser("datcp_fig09", __doc__).parse_args(argv)
    runs = [run(arguments.out, _document(seed)) for seed in arguments.seeds]
    figure, axes = panels(1)
    throughput(axes[0], runs[0], {"deadline 4 s": DEADLINE, "background": BACKGROUND}, "")
    finish(figure, axes, arguments.out / "datcp_fig09.png")
    return conclude(
        arguments.out, "datcp_fig09", [_quick(runs), _weighted(runs), validity(runs)], _numbers(runs)
    )


def _document(seed: int) -> dict[str, Any]:
    flows = [endless(UNTIL_S) for _ in range(3)]
    flows += [sized(SIZE_BYTES, "deadline 4 s", DEADLINE_S, start_s=start_s) for start_s in STARTS_S]
    return document(f"convergence-seed{seed}", seed, flows, DATCP)


def _shares(outcome: Run, at_s: float) -> dict[int, float]:
    """Weighted share of every flow under way at a time, in Mb/s."""
    precedences = {}
    for index, flow in enumerate(outcome.flows):
        if flow.start_s <= at_s < (flow.end_s or np.inf):
            times, values = column(outcome, index, "precedence")
            precedences[index] = float(np.interp(at_s, times, np.maximum(values, 1e-3)))
    total = sum(precedences.values())
    return {index: GOODPUT_MBPS * value / total for index, value in precedences.items()}


def _settling_s(outcome: Run, index: int) -> float | None:
    """From a flow's start to the end of the first OVER_S in which it has its share."""
    flow = outcome.flows[index]
    end_s = flow.end_s or UNTIL_S
    for at_s in np.arange(flow.start_s + OVER_S, end_s, STEP_S):
        share = _shares(outcome, at_s - OVER_S / 2)[index]
        if abs(mean_rate_mbps(outcome, index, at_s - OVER_S, at_s) - share) <= NEAR * share:
            return float(at_s - flow.start_s)
    return None


def _deviation(outcome: Run) -> float:
    """Mean over time and flows of the distance from the weighted share, as part of it, while six flows run."""
    begin_s, end_s = STARTS_S[-1] + QUICK_S, min(flow.end_s or UNTIL_S for flow in outcome.flows)
    distances = []
    for at_s in np.arange(begin_s, end_s - OVER_S, OVER_S):
        for index, share in _shares(outcome, at_s + OVER_S / 2).items():
            rate = mean_rate_mbps(outcome, index, at_s, at_s + OVER_S)
            distances.append(abs(rate - share) / share)
    return float(np.mean(distances))


def _settlings(runs: list[Run]) -> list[float]:
    found = [_settling_s(outcome, i) for outcome in runs for i in outcome.labelled("deadline 4 s")]
    return [UNTIL_S if settling is None else settling for settling in found]


def _quick(runs: list[Run]) -> Claim:
    settlings = _settlings(runs)
    valid = all(outcome.valid for outcome in runs)
    what = f"a new flow reaches its weighted share (within {NEAR:.0%}), after seconds"
    return Claim(what, "quickly", spread(settlings), max(settlings) <= QUICK_S and valid)


def _weighted(runs: list[Run]) -> Claim:
    deviations = [_deviation(outcome) for outcome in runs]
    valid = all(outcome.valid for outcome in runs)
    what = f"mean distance from the weighted shares over {OVER_S:g} s, as part of them"
    return Claim(what, "converge to them", spread(deviations), median(deviations) <= DEVIATION and valid)


def _numbers(runs: list[Run]) -> list[dict[str, Any]]:
    return [
        {
            "fct_s": [outcome.flows[i].fct_s for i in outcome.labelled("deadline 4 s")],
            "settling_s": [_settling_s(outcome, i) for i in outcome.labelled("deadline 4 s")],
            "deviation": _deviation(outcome),
            "retransmissions": outcome.retransmissions,
            "timeouts": outcome.timeouts,
            "valid": outcome.valid,
        }
        for outcome in runs
    ]


if __name__ == "__main__":
    sys.exit(main())
