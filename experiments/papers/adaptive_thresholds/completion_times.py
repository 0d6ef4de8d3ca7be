# SPDX-License-Identifier: Apache-2.0
"""Figures 6 to 8 of Gutiérrez et al.: the FCT of short and of long flows, static against dynamic thresholds.

All three read the same runs, at the paper's rate on the simulator. Figures 6 and 7 are one figure with two statistics.
The last experiment asks which open part of the set-up makes the paper's largest changes.
"""

from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.figure import Figure

from experiments.kit.draw import BROAD, Line, curve, grid
from experiments.kit.experiment import Claim, Experiment, Given, markdown_table
from experiments.kit.runners import Planned, ShortRuns, axes, one_group, shared_runs
from experiments.kit.runs import Changes, Difference, Results, Runs, lower, signed
from experiments.papers.adaptive_thresholds import common

MISMATCHED = ("1KB", "1000KB")
SAME = 0.02
"""Two means with a smaller relative difference count as equal."""
OPTIMUM = Line("static, 10 KB (the optimum)", "0.75", width=BROAD)


def changes(runs: Runs, figure: str, start: str, cause: str = "") -> Changes:
    """Return the change from the static to the dynamic runs of one start, by load."""
    return runs.changes(figure, f"{cause}dynamic-{start}", f"{cause}static-{start}")


def same(runs: Runs, figure: str) -> Claim:
    changed = changes(runs, figure, "10KB")
    return Claim("start 10 KB: dynamic against static", "close", str(changed), changed.within(SAME))


def draw(figure: str, ylabel: str, *, after: bool) -> Callable[[Results], Figure]:
    """Return a drawing with a panel for each start. `after` adds the flows after the first adjustment."""

    def drawn(results: Results) -> Figure:
        picture, [panels] = grid(1, len(MISMATCHED), width=4.4, height=3.8, sharey=True)
        for panel, start in zip(panels, MISMATCHED, strict=True):
            size, loads = start.replace("KB", " KB"), [100 * load for load in results.runs.loads]
            lines = [
                ("static-10KB", figure, OPTIMUM),
                (f"static-{start}", figure, Line(f"static, {size}", common.STATIC_COLOUR)),
                (f"dynamic-{start}", figure, Line(f"dynamic from {size}", common.DYNAMIC_COLOUR)),
            ]
            again = Line("… after the first adjustment", common.DYNAMIC_COLOUR, "--")
            lines += [(f"dynamic-{start}", common.settled(figure), again)] if after else []
            for variant, column, line in lines:
                curve(panel, loads, results.runs.curve(column, variant), line)
            panel.set_title(f"start {size}", fontsize="medium")
            panel.set(xlabel="load (%)", xticks=loads)
            panel.legend(frameon=False, fontsize="small", loc="upper left")
        panels[0].set_ylabel(ylabel)
        slowest = [results.runs.curve(figure, f"static-{start}") for start in MISMATCHED]
        panels[0].set_ylim(0, 1.35 * float(np.max(slowest)))
        return picture

    return drawn


FIG6_PAPER = {"1KB": "−4.9 … −33.5 %", "1000KB": "−3.7 … −86 %"}


def fig6_claims(results: Results) -> list[Claim]:
    by_start = {start: changes(results.runs, "short_mean", start) for start in MISMATCHED}
    return [
        *(
            lower(f"start {start}: mean of short flows", FIG6_PAPER[start], changed)
            for start, changed in by_start.items()
        ),
        *(
            Claim(
                f"start {start}: more so at high loads", "especially above 70 %", str(changed), changed.grows
            )
            for start, changed in by_start.items()
        ),
        same(results.runs, "short_mean"),
    ]


FIG6 = Experiment(
    claim="Adapting a threshold that does not fit the traffic lowers the short flows' mean FCT.",
    figure="Gutiérrez et al., Fig. 6",
    about="Mean FCT of the short flows, static against dynamic thresholds, at the paper's rate.",
    runner=ShortRuns(common.plan, common.columns),
    claims=fig6_claims,
    draw=draw("short_mean", "mean FCT of 10 KB flows (µs)", after=False),
    **common.SHARED,
)


FIG7_PAPER = {"1KB": "−33.9 … −59.5 %", "1000KB": "−51.3 … −93.9 %"}
WHEN = {"short_p99": "whole run", common.settled("short_p99"): "after the first adjustment"}
TRANSIENT = (
    "10,000 flows last 3.4 s at load 0.5 and 1.9 s at 0.9, and the first adjustment comes after 0.2 s. So 6 "
    "to 11 % of the flows run under the starting threshold, more at high loads, and the slowest 1 % are "
    "among them. For the flows after the adjustment the gain grows with the load"
)


def fig7_claims(results: Results) -> list[Claim]:
    verdict = []
    for start in MISMATCHED:
        for column, when in WHEN.items():
            changed = changes(results.runs, column, start)
            verdict.append(lower(f"start {start}: p99 of short flows, {when}", FIG7_PAPER[start], changed))
            what = f"start {start}: more so at high loads, {when}"
            verdict.append(Claim(what, "especially at high loads", str(changed), changed.grows, TRANSIENT))
    return [*verdict, same(results.runs, "short_p99")]


FIG7 = Experiment(
    claim="Adapting a threshold that does not fit the traffic lowers the short flows' p99 FCT.",
    figure="Gutiérrez et al., Fig. 7",
    about="p99 FCT of the short flows, static against dynamic thresholds, at the paper's rate.",
    runner=ShortRuns(common.plan, common.columns),
    claims=fig7_claims,
    draw=draw("short_p99", "p99 FCT of 10 KB flows (µs)", after=True),
    **common.SHARED,
)


FIG8_ABOUT = """\
Long flows, static against dynamic thresholds from 1000 KB, at the paper's rate on the simulator.

There are two sets of runs. In one, long flows have exactly the size of the threshold. In the
other, the threshold also counts the packets' headers, so the last 28 KB of a long flow are above
it. The headers make all the difference (docs/measurements/adaptive-thresholds.md)."""

COUNTED = "headers-counted-"
SETS = {"": "1000 KB, payload counted", COUNTED: "1000 KB, headers counted"}
"""Prefix of the variants → its meaning."""
FIGURES = {"long_mean": "mean", "long_p99": "p99"}
FIG8_PAPER = {"long_mean": "−27.1 … −46.7 %", "long_p99": "−24 … −45.8 %"}
NO_INCREASE, CLEARLY = 0.02, -0.02
EXPLANATION = (
    "a flow of exactly 1000 KB never leaves the top queue. With either threshold all long flows share "
    "one FIFO, and the short ones carry 3.8 % of the bytes. If headers count, a long flow's last packets "
    "go below the first 1000 KB of all others. Then they wait, and the paper's gain appears"
)


def fig8_plan(given: Given) -> Mapping[str, Planned]:
    counted = common.cause_points(given, ["headers-counted"], ["static-1000KB", "dynamic-1000KB"])
    return one_group(given, [*axes(given, common.SCENARIO), *counted], common.runs_folder(given))


def fig8_claims(results: Results) -> list[Claim]:
    runs, verdict = results.runs, []
    for prefix, start in SETS.items():
        for figure, name in FIGURES.items():
            changed = changes(runs, figure, "1000KB", prefix)
            holds = all(change.high < CLEARLY for load, change in changed.by_load.items() if load >= 0.8)
            what, why = f"start {start}: {name} of long flows", "" if prefix else EXPLANATION
            verdict.append(Claim(what, FIG8_PAPER[figure], str(changed), holds, why))
    for start in ("1KB", "10KB"):
        for figure, name in FIGURES.items():
            changed = changes(runs, figure, start)
            holds = all(change.mean <= NO_INCREASE for change in changed.by_load.values())
            what = f"start {start}: {name} of long flows"
            verdict.append(Claim(what, "no increase", str(changed), holds))
    return verdict


def fig8_draw(results: Results) -> Figure:
    """Draw static lines broadly: without headers counted, the dynamic ones cover them."""
    figure, [panels] = grid(1, len(FIGURES), width=4.4, height=3.8)
    loads = [100 * load for load in results.runs.loads]
    for axes_, (column, name) in zip(panels, FIGURES.items(), strict=True):
        for prefix, style in zip(SETS, ("-", "--"), strict=True):
            for line in (
                Line("static", common.STATIC_COLOUR, style, BROAD),
                Line("dynamic", common.DYNAMIC_COLOUR, style),
            ):
                values = results.runs.curve(column, f"{prefix}{line.title}-1000KB", 1 / 1000)
                label = f"{line.title}{', headers counted' if prefix else ''}"
                curve(axes_, loads, values, Line(label, line.colour, style, line.width))
        axes_.set_title(f"1000 KB flows, {name}", fontsize="medium")
        axes_.set(xlabel="load (%)", xticks=loads)
        axes_.set_ylim(bottom=0)
    panels[0].set_ylabel("FCT (ms)")
    panels[0].legend(frameon=False, fontsize="small")
    return figure


FIG8 = Experiment(
    claim="Adapting a threshold of 1000 KB lowers the long flows' FCT; other starts do not raise it.",
    figure="Gutiérrez et al., Fig. 8",
    about=FIG8_ABOUT,
    runner=ShortRuns(fig8_plan, common.columns),
    claims=fig8_claims,
    draw=fig8_draw,
    **common.SHARED,
)


CAUSES_ABOUT = """\
What the figures depend on beyond the paper: one thing of the set-up is changed at a time.

The table has the change from a static threshold of 1000 KB, and of 1 KB, to 10 KB, where
adaptation settles."""

VARIANTS = ("static-1KB", "static-10KB", "static-1000KB")
COLUMNS = (
    ("short_mean", "1KB"),
    ("short_p99", "1KB"),
    ("short_mean", "1000KB"),
    ("short_p99", "1000KB"),
    ("long_mean", "1000KB"),
    ("long_p99", "1000KB"),
)
LARGEST = {
    ("headers-window-10", "short_mean", "1KB"): -0.335,
    ("headers-window-10", "short_p99", "1KB"): -0.595,
    ("no-marks-3600KB", "short_mean", "1000KB"): -0.86,
    ("headers-counted", "long_mean", "1000KB"): -0.467,
}
"""The paper's largest changes, each with the set-up in which it appears."""
NEAR = 0.1


def causes_plan(given: Given) -> Mapping[str, Planned]:
    return one_group(
        given, common.cause_points(given, list(common.CAUSES), VARIANTS), common.runs_folder(given)
    )


def change(results: Results, cause: str, figure: str, start: str, load: float) -> Difference:
    """Return the change from the threshold at `start` to the threshold at 10 KB."""
    return results.runs.change(figure, f"{cause}-static-10KB", f"{cause}-static-{start}", load)


def claims(results: Results) -> list[Claim]:
    load = results.runs.loads[-1]
    verdict = []
    for (cause, figure, start), paper in LARGEST.items():
        measured = change(results, cause, figure, start, load)
        what = f"{cause}, load {load:g}: {figure.replace('_', ' ')} from {start}"
        holds = abs(measured.mean - paper) <= NEAR
        verdict.append(Claim(what, signed(f"{paper:+.1%}"), str(measured), holds))
    return verdict


def table(results: Results) -> str:
    """Return a line for each set-up and load."""
    rows = [
        (
            signed(cause),
            f"{load:g}",
            *(signed(f"{change(results, cause, f, s, load).mean:+.0%}") for f, s in COLUMNS),
        )
        for cause in common.CAUSES
        for load in results.runs.loads
    ]
    headings = ("set-up", "load", *(f"{figure.replace('_', ' ')}, {start}" for figure, start in COLUMNS))
    return markdown_table(headings, rows) + "\n"


DYNA_CAUSES = Experiment(
    claim="The paper's largest changes appear when one thing changes that it leaves open.",
    figure="Gutiérrez et al., Figs. 6–8",
    minutes=2,
    about=CAUSES_ABOUT,
    runner=ShortRuns(causes_plan, common.columns),
    seeds=(1, 2, 3),
    loads=(0.5, 0.9),
    flows=common.FLOWS,
    options=(shared_runs("dyna-causes"),),
    quick={"seeds": (1, 2)},
    claims=claims,
    table=table,
)
