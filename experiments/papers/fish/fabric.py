# SPDX-License-Identifier: Apache-2.0
"""FISH and PIAS on a leaf-spine fabric: small, medium and large flows, with three capacities and three gaps."""

from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from experiments.kit.draw import Line, intervals, legend_below
from experiments.kit.experiment import Claim, Experiment, Given, option
from experiments.kit.runners import Planned, ShortRuns, one_group
from experiments.kit.runs import Difference, Results, Runs, lower, signed, within
from experiments.papers.fish import common
from sluice.commands.arguments import folder

SCENARIO = Path(__file__).with_name("fabric.toml")
CAPACITIES = (240, 480, 960)
"""Packets that all queues of a port hold together."""
SETUPS = {capacity: common.Setup(capacity) for capacity in CAPACITIES}
VARIANTS = ("pias", "fish-strict", "fish")
ORDERLY, ORDERLY_GAP = common.Setup(960, recovery="timeouts"), "1ms"
"""In this set-up no packet is lost, and reordering within a flow has no effect."""


def plan(given: Given) -> Mapping[str, Planned]:
    orderly = common.points(given, SCENARIO, [ORDERLY], VARIANTS, [ORDERLY_GAP])
    return one_group(
        given, orderly + common.points(given, SCENARIO, list(SETUPS.values()), VARIANTS), given["runs"]
    )


SHARED: Mapping[str, Any] = {
    "minutes": 8,
    "runner": ShortRuns(plan, common.columns),
    "seeds": 20,
    "quick": {"seeds": 3},
    "options": (
        option(
            "--runs",
            type=folder,
            default=Path("results/fish-fabric"),
            help="folder of the bundles, which fish_fig8 and fish_fig9 share (default: %(default)s)",
        ),
    ),
}
"""Options of both figures."""


def over_pias_240(runs: Runs, figure: str, capacity: int, gap: str, variant: str = "fish") -> Difference:
    """Return the paper's comparison: FISH's capacity varies, PIAS keeps 240."""
    return common.change(runs, figure, variant, SETUPS[capacity], gap, SETUPS[240])


def over_equal(runs: Runs, figure: str, capacity: int, gap: str, variant: str = "fish") -> Difference:
    """Return the difference to PIAS with the same capacity."""
    return common.change(runs, figure, variant, SETUPS[capacity], gap)


CHANGES = {"PIAS-240": over_pias_240, "PIAS of the same capacity": over_equal}
MARKS = {"PIAS-240": (-0.12, "#222222", "s"), "PIAS of the same capacity": (0.12, "#44aa99", "o")}
"""(place next to the tick, colour, marker)"""


def draw(*figures: str) -> Callable[[Results], Figure]:
    """Return a drawing with a row for each figure and a column for each gap: FISH of each capacity
    over both PIAS."""

    def drawn(results: Results) -> Figure:
        titles = [f"Δt {gap.replace('ms', ' ms')}" for gap in common.GAPS]
        picture, rows = common.panels(len(figures), titles, one_scale=True)
        for row, figure in zip(rows, figures, strict=True):
            for axes, gap in zip(row, common.GAPS, strict=True):
                for name, (shift, colour, marker) in MARKS.items():
                    places = [place + shift for place in range(len(CAPACITIES))]
                    changes = [CHANGES[name](results.runs, figure, capacity, gap) for capacity in CAPACITIES]
                    intervals(axes, places, changes, Line(f"against {name}", colour), marker)
                axes.set_xticks(range(len(CAPACITIES)), list(map(str, CAPACITIES)))
            row[0].set_ylabel(f"{common.FIGURES[figure]}\nFISH against PIAS (%)")
        for axes in rows[-1]:
            axes.set_xlabel("capacity of FISH's ports (packets)")
        legend_below(picture, rows[0][0])
        return picture

    return drawn


def numbers(*figures: str) -> Callable[[Results], dict[str, Any]]:
    """Return mean FCTs in milliseconds and every difference, by gap and capacity."""

    def numbers_of(results: Results) -> dict[str, Any]:
        return {
            gap: {str(capacity): _numbers(results.runs, figures, capacity, gap) for capacity in CAPACITIES}
            for gap in common.GAPS
        }

    return numbers_of


def _numbers(runs: Runs, figures: tuple[str, ...], capacity: int, gap: str) -> dict[str, Any]:
    means = {variant: common.fct_ms(runs, figures, variant, SETUPS[capacity], gap) for variant in VARIANTS}
    differences = {
        f"{variant} against {name}": {
            figure: over(runs, figure, capacity, gap, variant).to_document() for figure in figures
        }
        for variant in VARIANTS[1:]
        for name, over in CHANGES.items()
    }
    return {"fct_ms": means, **differences}


FIG8_ABOUT = """\
Small flows under FISH and PIAS on a leaf-spine fabric: three capacities, three gaps.

The paper compares FISH of every capacity with one PIAS. So does the first comparison here. The
second one gives PIAS the same capacity, so that an effect of the buffer does not count for
FISH."""

FIG8_FIGURES = ("small_mean", "small_p99")
BURST = "0.01ms"
IN_BURST = {240: "worse", 480: "−1.8 %", 960: "−8.2 %"}
"""Capacity → the paper's value."""
FIG8_EXPLANATION = (
    "taking turns costs the longer of the small flows more than it gives the shortest. All active flows have "
    "packets in a port together, so more of them find it full (see fish_fig6)"
)


def fig8_claims(results: Results) -> list[Claim]:
    runs, verdict = results.runs, []
    for capacity in CAPACITIES:
        what = f"Δt 1ms: FISH-{capacity} against PIAS, small mean"
        mean = over_pias_240(runs, "small_mean", capacity, "1ms")
        verdict.append(lower(what, "better, up to 9.5 %", mean, FIG8_EXPLANATION))
    in_burst = {capacity: over_pias_240(runs, "small_p99", capacity, BURST) for capacity in CAPACITIES}
    for capacity, paper in IN_BURST.items():
        what = f"Δt {BURST}: FISH-{capacity} against PIAS, small p99"
        tail = in_burst[capacity]
        holds = tail.lower != (paper == "worse")
        verdict.append(Claim(what, paper, str(tail), holds, FIG8_EXPLANATION))
    tails = [tail.mean for tail in in_burst.values()]
    measured = signed(" > ".join(f"{tail:+.0%}" for tail in tails))
    what = f"Δt {BURST}: FISH improves with the capacity"
    verdict.append(Claim(what, "grows with the capacity", measured, tails[0] > tails[2]))
    for figure in FIG8_FIGURES:
        for gap in common.GAPS:
            what = f"Δt {gap}: FISH-960 against PIAS-960, {figure.replace('_', ' ')}"
            equal = over_equal(runs, figure, 960, gap)
            verdict.append(lower(what, "(not in the paper)", equal, FIG8_EXPLANATION))
    return verdict


FIG8 = Experiment(
    name="fish_fig8",
    claim="On a fabric FISH gets small flows done sooner than PIAS, in a burst with large buffers too.",
    figure="Zhang and Hu, Fig. 8",
    about=FIG8_ABOUT,
    claims=fig8_claims,
    numbers=numbers(*FIG8_FIGURES),
    draw=draw(*FIG8_FIGURES),
    **SHARED,
)


FIG9_FIGURES = ("medium_mean", "large_mean")
PAPER, LIMIT = "within 3.8 %", 0.038
FIG9_EXPLANATION = (
    "the shares cause it: a lower priority's share lets a flow's later packets overtake its earlier ones "
    "in a higher priority. Three of them count as a loss, which gives 600 needless retransmissions in 800 "
    "flows. With strict priorities, or if only timeouts show losses (as in PIAS's scripts), the difference is gone"
)


def fig9_claims(results: Results) -> list[Claim]:
    runs, verdict = results.runs, []
    for figure, capacity, gap in product(FIG9_FIGURES, CAPACITIES, common.GAPS):
        what = f"Δt {gap}: FISH-{capacity} against PIAS, {figure.replace('_', ' ')}"
        over_pias = over_pias_240(runs, figure, capacity, gap)
        verdict.append(within(what, PAPER, over_pias, LIMIT, FIG9_EXPLANATION))
    for figure in FIG9_FIGURES:
        what = f"Δt {ORDERLY_GAP}: FISH-960 against PIAS-960, timeouts only, {figure.replace('_', ' ')}"
        orderly = common.change(runs, figure, "fish", ORDERLY, ORDERLY_GAP)
        verdict.append(within(what, PAPER, orderly, LIMIT))
    return verdict


FIG9 = Experiment(
    name="fish_fig9",
    claim="On a fabric FISH changes the FCT of medium and large flows by 3.8 % at most.",
    figure="Zhang and Hu, Fig. 9",
    about="Medium and large flows under FISH and PIAS on a leaf-spine fabric.",
    claims=fig9_claims,
    numbers=numbers(*FIG9_FIGURES),
    draw=draw(*FIG9_FIGURES),
    **SHARED,
)
