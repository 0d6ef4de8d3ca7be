# SPDX-License-Identifier: Apache-2.0
"""fish_fig6, fish_fig8 and fish_fig9 on the simulator: FISH against PIAS on one link, and on a leaf-spine fabric.

FISH is PIAS with two changes: a queue for each flow inside a priority, and a share of the link for
each priority. `VARIANTS` has each change alone, so that their effects can be distinguished.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.kit.draw import Grid, Line, grid, intervals, legend_below, line_of
from experiments.kit.experiment import Claim, Experiment, Given
from experiments.kit.flows import means, percentile, read_flow_columns
from experiments.kit.runners import Planned, ShortRuns, axes, one_group, shared_runs
from experiments.kit.runs import Difference, Results, Runs, lower, signed, within
from sluice.policy.schemes import SCHEMES
from sluice.policy.wire.records import SIZE_CLASSES
from sluice.runs.files import read_document
from sluice.sweep.points import Point

GAPS = ("1ms", "0.1ms", "0.01ms")
"""Mean time between two flows' starts."""
PACKET_KB = 1.5
FISH_SHARES = [1 - 7 * SCHEMES["fish"].least_share, *[SCHEMES["fish"].least_share] * 7]

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "pias": {"name": "pias"},
    "pias-shares": {"name": "pias", "shares": FISH_SHARES},
    "fish-strict": {"name": "fish", "shares": []},
    "fish": {"name": "fish"},
}

RECOVERIES: Mapping[str, Mapping[str, Any]] = {
    "ns2": {},
    "timeouts": {"simulator.duplicate_threshold": 0},
    "linux": {"simulator.recovery": "linux"},
}
"""Name → how losses are detected and repaired: as in ns-2, as in PIAS's scripts, or as in Linux. In
PIAS's scripts three later packets do not yet mean a loss."""

FIGURES = {
    "small_mean": "small flows, mean",
    "small_p99": "small flows, p99",
    "medium_mean": "medium flows, mean",
    "large_mean": "large flows, mean",
}
"""Columns in milliseconds → their titles."""


@dataclass(frozen=True)
class Setup:
    """What the paper leaves open or varies: buffer and first window in packets, and recovery."""

    capacity: int = 240
    window: int = 70
    recovery: str = "ns2"
    """A key of RECOVERIES."""

    @property
    def name(self) -> str:
        suffix = "" if self.recovery == "ns2" else f"-{self.recovery}"
        return f"{self.capacity}pkt-window{self.window}{suffix}"

    @property
    def tables(self) -> dict[str, Any]:
        return {
            "fabric": {"buffer": f"{self.capacity * PACKET_KB:g}KB"},
            "transport": {"initial_window": self.window},
        }


def label(variant: str, setup: Setup, gap: str) -> str:
    """Return the scheme of a point."""
    return f"{variant}-{setup.name}-{gap}"


def points(
    given: Given,
    scenario: Path,
    setups: Sequence[Setup],
    variants: Sequence[str] = tuple(VARIANTS),
    gaps: Sequence[str] = GAPS,
) -> list[Point]:
    """Return every variant in every set-up at every gap."""
    document = read_document(scenario)
    return [
        point
        for setup in setups
        for point in axes(
            given,
            document,
            variants={
                label(variant, setup, gap): {
                    **VARIANTS[variant],
                    **setup.tables,
                    "workload": {"interarrival": gap},
                }
                for gap in gaps
                for variant in variants
            },
            settings=RECOVERIES[setup.recovery],
        )
    ]


def columns(bundle: Path) -> dict[str, float]:
    """Return FIGURES of a run; nan if it has no such flow. ValueError: a flow did not finish."""
    flows = read_flow_columns(bundle).need_finished()
    by_class = {name: flows.fct_us[flows.size_class == name] / 1000 for name in SIZE_CLASSES}
    return {**means(by_class), "small_p99": percentile(by_class["small"], 99)}


def change(
    runs: Runs, figure: str, variant: str, setup: Setup, gap: str, against: Setup | None = None
) -> Difference:
    """Return the difference to PIAS in the same set-up, or in `against`."""
    return runs.change(figure, label(variant, setup, gap), label("pias", against or setup, gap))


def fct_ms(runs: Runs, figures: Sequence[str], variant: str, setup: Setup, gap: str) -> dict[str, float]:
    """Return means over the seeds that have such flows."""
    where = label(variant, setup, gap)
    return {figure: float(np.nanmean(runs.values(figure, where))) for figure in figures}


def panels(rows: int, titles: Sequence[str], *, one_scale: bool) -> tuple[Figure, Grid]:
    """Return a grid with a line at 0 and titles above. With `one_scale` a row's panels share an axis."""
    sharing = "row" if one_scale else False
    figure, by_row = grid(rows, len(titles), height=2.7 + 0.5 / rows, sharey=sharing)
    for panel in (panel for row in by_row for panel in row):
        panel.axhline(0, color="0.5", linewidth=1, zorder=1)
        panel.grid(visible=False, axis="x")
    for panel, title in zip(by_row[0], titles, strict=True):
        panel.set_title(title, fontsize="medium")
    return figure, by_row


# ── Figure 6: one link ────────────────────────────────────────────────────────────


FIG6_SCENARIO = Path(__file__).with_name("single.toml")
FIG6_SETUPS = {
    "buffer 240, first window 70": Setup(),
    "buffer 240, first window 10": Setup(window=10),
    "buffer 960, first window 70": Setup(capacity=960),
    "buffer 240, first window 70, timeouts only": Setup(recovery="timeouts"),
    "buffer 240, first window 70, Linux's recovery": Setup(recovery="linux"),
}
FIG6_PAPER = {
    ("small_mean", "0.1ms"): -0.0264,
    ("small_mean", "0.01ms"): -0.0323,
    ("small_p99", "0.1ms"): -0.1992,
    ("small_p99", "0.01ms"): -0.022,
    ("medium_mean", "1ms"): 11.157 / 11.133 - 1,
    ("medium_mean", "0.1ms"): 38.133 / 37.907 - 1,
    ("medium_mean", "0.01ms"): 43.534 / 43.296 - 1,
    ("large_mean", "1ms"): 79.450 / 79.672 - 1,
    ("large_mean", "0.1ms"): 123.287 / 122.966 - 1,
    ("large_mean", "0.01ms"): 128.198 / 128.476 - 1,
}
"""The paper's relative differences. Those of medium and large flows are from tables 1 and 2."""
CLOSE = 0.03
"""Limit for the means of medium and large flows. The paper has 0.6 % in its one run of each."""
SIZES_KB = (0, 10, 20, 40, 60, 100)
"""Bounds of the small flows' sizes, for the table by size."""
LINES = {
    "pias-shares": Line("shares alone", "#bbbbbb"),
    "fish-strict": Line("flow queues alone", "#4477aa"),
    "fish": Line("FISH: both", line_of("fish").colour),
}
FIG6_EXPLANATION = (
    "a FIFO serves a flow by its window: a first window of any size passes in the time of the queue. "
    "Taking turns serves every flow alike, a packet a round. With many flows in the first priority (up to "
    "1.3 MB of each), the longer of the small ones take longer. Turns win if the large windows of others "
    "wait in the queue, because all start at once and the buffer has room"
)


def fig6_plan(given: Given) -> Mapping[str, Planned]:
    return one_group(given, points(given, FIG6_SCENARIO, list(FIG6_SETUPS.values())))


def fig6_claims(results: Results) -> list[Claim]:
    verdict = []
    for name, setup in FIG6_SETUPS.items():
        for (figure, gap), papers_change in FIG6_PAPER.items():
            what = f"{name}, Δt {gap}: {figure.replace('_', ' ')} against PIAS"
            paper = signed(f"{papers_change:+.2%}")
            ours = change(results.runs, figure, "fish", setup, gap)
            if figure.startswith("small"):
                verdict.append(lower(what, paper, ours, FIG6_EXPLANATION))
            else:
                verdict.append(within(what, paper, ours, CLOSE))
    return verdict


def fig6_numbers(results: Results) -> dict[str, Any]:
    return {
        name: {gap: _fig6_numbers(results.runs, setup, gap) for gap in GAPS}
        for name, setup in FIG6_SETUPS.items()
    }


def _fig6_numbers(runs: Runs, setup: Setup, gap: str) -> dict[str, Any]:
    return {
        "fct_ms": {variant: fct_ms(runs, list(FIGURES), variant, setup, gap) for variant in VARIANTS},
        "changes": {
            variant: {figure: change(runs, figure, variant, setup, gap).to_document() for figure in FIGURES}
            for variant in LINES
        },
        "small_by_size_ms": {variant: by_size(runs, variant, setup, gap) for variant in VARIANTS},
    }


def by_size(runs: Runs, variant: str, setup: Setup, gap: str) -> list[float]:
    """Return the mean FCT in ms of small flows by size, in the steps of SIZES_KB, over all seeds."""
    flows = [run.flows() for run in runs.at(label(variant, setup, gap))]
    sizes_kb = np.concatenate([of_run.bytes for of_run in flows]) / 1000
    times_ms = np.concatenate([of_run.fct_us for of_run in flows]) / 1000
    return [float(times_ms[(sizes_kb > low) & (sizes_kb <= high)].mean()) for low, high in pairwise(SIZES_KB)]


def fig6_draw(results: Results) -> Figure:
    """Draw a row for each set-up and a column for each figure: FISH, its two changes, and the
    paper's values."""
    picture, rows = panels(len(FIG6_SETUPS), list(FIGURES.values()), one_scale=False)
    for row, (title, setup) in zip(rows, FIG6_SETUPS.items(), strict=True):
        for panel, figure in zip(row, FIGURES, strict=True):
            for nth, (variant, line) in enumerate(LINES.items()):
                places = [place + 0.16 * (nth - 1) for place in range(len(GAPS))]
                changes = [change(results.runs, figure, variant, setup, gap) for gap in GAPS]
                intervals(panel, places, changes, line)
            paper = [100 * FIG6_PAPER.get((figure, gap), np.nan) for gap in GAPS]
            panel.plot([place + 0.32 for place in range(len(GAPS))], paper, "x", color="black", label="paper")
            panel.set_xticks(range(len(GAPS)), [gap.replace("ms", " ms") for gap in GAPS])
        row[0].set_ylabel(f"{fill(title, 28)}\nFCT against PIAS (%)", fontsize="small")
    for panel in rows[-1]:
        panel.set_xlabel("mean time between starts")
    legend_below(picture, rows[0][0])
    return picture


FIG6 = Experiment(
    claim="On one link FISH gets small flows done sooner than PIAS, and others as soon.",
    figure="Zhang and Hu, Fig. 6, tables 1 and 2",
    minutes=4,
    about="FISH against PIAS on one link, 100 flows: many seeds, FISH's two changes alone, five set-ups.",
    runner=ShortRuns(fig6_plan, columns),
    seeds=50,
    quick={"seeds": 10},
    claims=fig6_claims,
    numbers=fig6_numbers,
    draw=fig6_draw,
)


# ── Figures 8 and 9: small, medium and large flows on a fabric, three capacities and three gaps ────────────────────


FABRIC_SCENARIO = Path(__file__).with_name("fabric.toml")
CAPACITIES = (240, 480, 960)
"""Packets that all queues of a port hold together."""
FABRIC_SETUPS = {capacity: Setup(capacity) for capacity in CAPACITIES}
FABRIC_VARIANTS = ("pias", "fish-strict", "fish")
ORDERLY, ORDERLY_GAP = Setup(960, recovery="timeouts"), "1ms"
"""In this set-up no packet is lost, and reordering within a flow has no effect."""


def plan(given: Given) -> Mapping[str, Planned]:
    orderly = points(given, FABRIC_SCENARIO, [ORDERLY], FABRIC_VARIANTS, [ORDERLY_GAP])
    return one_group(
        given,
        orderly + points(given, FABRIC_SCENARIO, list(FABRIC_SETUPS.values()), FABRIC_VARIANTS),
        given["runs"],
    )


SHARED: Mapping[str, Any] = {
    "minutes": 8,
    "runner": ShortRuns(plan, columns),
    "seeds": 20,
    "quick": {"seeds": 3},
    "options": (shared_runs("fish-fabric", ", which fish_fig8 and fish_fig9 share"),),
}
"""Options of both figures."""


def over_pias_240(runs: Runs, figure: str, capacity: int, gap: str, variant: str = "fish") -> Difference:
    """Return the paper's comparison: FISH's capacity varies, PIAS keeps 240."""
    return change(runs, figure, variant, FABRIC_SETUPS[capacity], gap, FABRIC_SETUPS[240])


def over_equal(runs: Runs, figure: str, capacity: int, gap: str, variant: str = "fish") -> Difference:
    """Return the difference to PIAS with the same capacity."""
    return change(runs, figure, variant, FABRIC_SETUPS[capacity], gap)


CHANGES = {"PIAS-240": over_pias_240, "PIAS of the same capacity": over_equal}
MARKS = {"PIAS-240": (-0.12, "#222222", "s"), "PIAS of the same capacity": (0.12, "#44aa99", "o")}
"""(place next to the tick, colour, marker)"""


def draw(*figures: str) -> Callable[[Results], Figure]:
    """Return a drawing with a row for each figure and a column for each gap: FISH of each capacity
    over both PIAS."""

    def drawn(results: Results) -> Figure:
        titles = [f"Δt {gap.replace('ms', ' ms')}" for gap in GAPS]
        picture, rows = panels(len(figures), titles, one_scale=True)
        for row, figure in zip(rows, figures, strict=True):
            for panel, gap in zip(row, GAPS, strict=True):
                for name, (shift, colour, marker) in MARKS.items():
                    places = [place + shift for place in range(len(CAPACITIES))]
                    changes = [CHANGES[name](results.runs, figure, capacity, gap) for capacity in CAPACITIES]
                    intervals(panel, places, changes, Line(f"against {name}", colour), marker)
                panel.set_xticks(range(len(CAPACITIES)), list(map(str, CAPACITIES)))
            row[0].set_ylabel(f"{FIGURES[figure]}\nFISH against PIAS (%)")
        for panel in rows[-1]:
            panel.set_xlabel("capacity of FISH's ports (packets)")
        legend_below(picture, rows[0][0])
        return picture

    return drawn


def numbers(*figures: str) -> Callable[[Results], dict[str, Any]]:
    """Return mean FCTs in milliseconds and every difference, by gap and capacity."""

    def numbers_of(results: Results) -> dict[str, Any]:
        return {
            gap: {str(capacity): _numbers(results.runs, figures, capacity, gap) for capacity in CAPACITIES}
            for gap in GAPS
        }

    return numbers_of


def _numbers(runs: Runs, figures: tuple[str, ...], capacity: int, gap: str) -> dict[str, Any]:
    means = {
        variant: fct_ms(runs, figures, variant, FABRIC_SETUPS[capacity], gap) for variant in FABRIC_VARIANTS
    }
    differences = {
        f"{variant} against {name}": {
            figure: over(runs, figure, capacity, gap, variant).to_document() for figure in figures
        }
        for variant in FABRIC_VARIANTS[1:]
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
        for gap in GAPS:
            what = f"Δt {gap}: FISH-960 against PIAS-960, {figure.replace('_', ' ')}"
            equal = over_equal(runs, figure, 960, gap)
            verdict.append(lower(what, "(not in the paper)", equal, FIG8_EXPLANATION))
    return verdict


FIG8 = Experiment(
    claim="On a fabric FISH gets small flows done sooner than PIAS, in a burst with large buffers too.",
    figure="Zhang and Hu, Fig. 8",
    about=FIG8_ABOUT,
    claims=fig8_claims,
    numbers=numbers(*FIG8_FIGURES),
    draw=draw(*FIG8_FIGURES),
    **SHARED,
)


FIG9_FIGURES = ("medium_mean", "large_mean")
FIG9_PAPER, FIG9_LIMIT = "within 3.8 %", 0.038
FIG9_EXPLANATION = (
    "the shares cause it: a lower priority's share lets a flow's later packets overtake its earlier ones "
    "in a higher priority. Three of them count as a loss, which gives 600 needless retransmissions in 800 "
    "flows. With strict priorities, or if only timeouts show losses (as in PIAS's scripts), the difference is gone"
)


def fig9_claims(results: Results) -> list[Claim]:
    runs, verdict = results.runs, []
    for figure, capacity, gap in product(FIG9_FIGURES, CAPACITIES, GAPS):
        what = f"Δt {gap}: FISH-{capacity} against PIAS, {figure.replace('_', ' ')}"
        over_pias = over_pias_240(runs, figure, capacity, gap)
        verdict.append(within(what, FIG9_PAPER, over_pias, FIG9_LIMIT, FIG9_EXPLANATION))
    for figure in FIG9_FIGURES:
        what = f"Δt {ORDERLY_GAP}: FISH-960 against PIAS-960, timeouts only, {figure.replace('_', ' ')}"
        orderly = change(runs, figure, "fish", ORDERLY, ORDERLY_GAP)
        verdict.append(within(what, FIG9_PAPER, orderly, FIG9_LIMIT))
    return verdict


FIG9 = Experiment(
    claim="On a fabric FISH changes the FCT of medium and large flows by 3.8 % at most.",
    figure="Zhang and Hu, Fig. 9",
    about="Medium and large flows under FISH and PIAS on a leaf-spine fabric.",
    claims=fig9_claims,
    numbers=numbers(*FIG9_FIGURES),
    draw=draw(*FIG9_FIGURES),
    **SHARED,
)
