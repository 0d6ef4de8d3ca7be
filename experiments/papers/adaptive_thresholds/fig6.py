# SPDX-License-Identifier: Apache-2.0
"""Mean FCT of the short flows, static against dynamic thresholds, at the paper's rate."""

from __future__ import annotations

from experiments.kit.experiment import Claim, Experiment
from experiments.kit.runners import ShortRuns
from experiments.kit.runs import Results, lower
from experiments.papers.adaptive_thresholds.common import SHARED, columns, plan
from experiments.papers.adaptive_thresholds.short_flows import MISMATCHED, changes, draw, numbers, same

PAPER = {"1KB": "−4.9 … −33.5 %", "1000KB": "−3.7 … −86 %"}


def claims(results: Results) -> list[Claim]:
    found = {start: changes(results.runs, "short_mean", start) for start in MISMATCHED}
    return [
        *(lower(f"start {start}: mean of short flows", PAPER[start], found[start]) for start in found),
        *(
            Claim(f"start {start}: more so at high loads", "especially above 70 %", str(one), one.grows)
            for start, one in found.items()
        ),
        same(results.runs, "short_mean"),
    ]


EXPERIMENT = Experiment(
    name="dyna_fig6",
    claim="Adapting a threshold that does not fit the traffic lowers the short flows' mean FCT.",
    figure="Gutiérrez et al., Fig. 6",
    about=__doc__,
    runner=ShortRuns(plan, columns),
    claims=claims,
    numbers=numbers("short_mean"),
    draw=draw("short_mean", "mean FCT of 10 KB flows (µs)", after=False),
    **SHARED,
)
