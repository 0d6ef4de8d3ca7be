# SPDX-License-Identifier: Apache-2.0
"""Small flows under FISH and PIAS on a leaf-spine fabric: three capacities, three gaps.

The paper compares FISH of every capacity with one PIAS. So does the first comparison here. The
second one gives PIAS the same capacity, so that an effect of the buffer does not count for
FISH.
"""

from __future__ import annotations

from experiments.kit.experiment import Claim, Experiment
from experiments.kit.runs import Results, Runs, lower, signed
from experiments.papers.fish.common import GAPS
from experiments.papers.fish.fabric import CAPACITIES, SHARED, draw, numbers, over_equal, over_pias_240

FIGURES = ("small_mean", "small_p99")
BURST = "0.01ms"
IN_BURST = {240: "worse", 480: "−1.8 %", 960: "−8.2 %"}
"""Capacity → the paper's value."""
EXPLANATION = (
    "taking turns costs the longer of the small flows more than it gives the shortest. All active flows have "
    "packets in a port together, so more of them find it full (see fish_fig6)"
)


def claims(results: Results) -> list[Claim]:
    runs = results.runs
    return [
        *(_against_240(runs, capacity) for capacity in CAPACITIES),
        *(_in_burst(runs, capacity, paper) for capacity, paper in IN_BURST.items()),
        _capacity_helps(runs),
        *(_against_equal(runs, figure, gap) for figure in FIGURES for gap in GAPS),
    ]


def _against_240(runs: Runs, capacity: int) -> Claim:
    what = f"Δt 1ms: FISH-{capacity} against PIAS, small mean"
    change = over_pias_240(runs, "small_mean", capacity, "1ms")
    return lower(what, "better, up to 9.5 %", change, EXPLANATION)


def _in_burst(runs: Runs, capacity: int, paper: str) -> Claim:
    what = f"Δt {BURST}: FISH-{capacity} against PIAS, small p99"
    change = over_pias_240(runs, "small_p99", capacity, BURST)
    return Claim(what, paper, str(change), change.lower != (paper == "worse"), EXPLANATION)


def _capacity_helps(runs: Runs) -> Claim:
    changes = [over_pias_240(runs, "small_p99", capacity, BURST).mean for capacity in CAPACITIES]
    measured = signed(" > ".join(f"{change:+.0%}" for change in changes))
    what = f"Δt {BURST}: FISH improves with the capacity"
    return Claim(what, "grows with the capacity", measured, changes[0] > changes[2])


def _against_equal(runs: Runs, figure: str, gap: str) -> Claim:
    what = f"Δt {gap}: FISH-960 against PIAS-960, {figure.replace('_', ' ')}"
    return lower(what, "(not in the paper)", over_equal(runs, figure, 960, gap), EXPLANATION)


EXPERIMENT = Experiment(
    name="fish_fig8",
    claim="On a fabric FISH gets small flows done sooner than PIAS, in a burst with large buffers too.",
    figure="Zhang and Hu, Fig. 8",
    about=__doc__,
    claims=claims,
    numbers=numbers(*FIGURES),
    draw=draw(*FIGURES),
    **SHARED,
)
