# SPDX-License-Identifier: Apache-2.0
"""Medium and large flows under FISH and PIAS on a leaf-spine fabric."""

from __future__ import annotations

from experiments.kit.experiment import Claim, Experiment
from experiments.kit.runs import Results, Runs, within
from experiments.papers.fish.common import GAPS, change
from experiments.papers.fish.fabric import (
    CAPACITIES,
    ORDERLY,
    ORDERLY_GAP,
    SHARED,
    draw,
    numbers,
    over_pias_240,
)

FIGURES = ("medium_mean", "large_mean")
PAPER, LIMIT = "within 3.8 %", 0.038
EXPLANATION = (
    "the shares cause it: a lower priority's share lets a flow's later packets overtake its earlier ones "
    "in a higher priority. Three of them count as a loss, which gives 600 needless retransmissions in 800 "
    "flows. With strict priorities, or if only timeouts show losses (as in PIAS's scripts), the difference is gone"
)


def claims(results: Results) -> list[Claim]:
    made = [
        _claim(results.runs, f, capacity, gap) for f in FIGURES for capacity in CAPACITIES for gap in GAPS
    ]
    return made + [_orderly(results.runs, figure) for figure in FIGURES]


def _claim(runs: Runs, figure: str, capacity: int, gap: str) -> Claim:
    what = f"Δt {gap}: FISH-{capacity} against PIAS, {figure.replace('_', ' ')}"
    return within(what, PAPER, over_pias_240(runs, figure, capacity, gap), LIMIT, EXPLANATION)


def _orderly(runs: Runs, figure: str) -> Claim:
    what = f"Δt {ORDERLY_GAP}: FISH-960 against PIAS-960, timeouts only, {figure.replace('_', ' ')}"
    return within(what, PAPER, change(runs, figure, "fish", ORDERLY, ORDERLY_GAP), LIMIT)


EXPERIMENT = Experiment(
    name="fish_fig9",
    claim="On a fabric FISH changes the FCT of medium and large flows by 3.8 % at most.",
    figure="Zhang and Hu, Fig. 9",
    about=__doc__,
    claims=claims,
    numbers=numbers(*FIGURES),
    draw=draw(*FIGURES),
    **SHARED,
)
