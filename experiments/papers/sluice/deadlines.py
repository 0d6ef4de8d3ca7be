# SPDX-License-Identifier: Apache-2.0
"""Deadlines missed against mean FCT under scheme sluice, by `urgent_after`: when deadline flows become urgent.

30 % of the flows have a deadline of 20 to 100 ms. PIAS knows neither sizes nor deadlines, and Karuna knows both. All
runs have the same flows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.kit.claims import all_finished, noted
from experiments.kit.draw import grid, legend_below, line_of
from experiments.kit.experiment import Experiment, Given, option
from experiments.kit.flows import read_flows
from experiments.kit.points import Planned, axes, one_group
from experiments.kit.runners import Sweep
from experiments.kit.runs import Results
from experiments.kit.verdict import Claim
from experiments.papers.sluice.fct import ALL, GROUPS, MISSES, SLOWDOWN, SMALL, document_of

URGENT_AFTER = ("0B", "100KB", "1MB", "3MB", "10MB")
"""Values of the setting. The last one is the default of the scheme."""
OTHERS = ("pias", "karuna")
PLAIN, TIMED, HOPELESS = "plain mean, us", "timed mean, us", "hopeless"
GOAL_MEAN = 0.85


def variant(urgent_after: str) -> str:
    return f"sluice-{urgent_after}"


def plan(given: Given) -> Mapping[str, Planned]:
    document = document_of(GROUPS["deadlines"])
    for value in given["urgent_after"]:
        document["sweep"]["scheme"][variant(value)] = {"name": "sluice", "urgent_after": value}
    schemes = (*OTHERS, *map(variant, given["urgent_after"]))
    return one_group(given, axes(given, document, schemes=schemes))


def columns(bundle: Path) -> dict[str, float]:
    """Mean FCT of the flows with and without a deadline, and the share of deadlines that an idle network misses."""
    flows = read_flows(bundle)
    timed = ~np.isnan(flows.deadline_us)
    return {
        PLAIN: float(np.nanmean(flows.fct_us[~timed])),
        TIMED: float(np.nanmean(flows.fct_us[timed])),
        HOPELESS: float((flows.ideal_us > flows.deadline_us)[timed].mean()),
    }


def claims(results: Results) -> list[Claim]:
    runs, values = results.runs, results.given["urgent_after"]
    mean = {name: median(runs.ratios(ALL, name, "pias")) for name in map(variant, values)}
    missed = {name: runs.median(MISSES, name) for name in (*mean, *OTHERS)}
    default, fast, exact = (
        variant(values[-1]),
        min(mean, key=mean.__getitem__),
        min(mean, key=missed.__getitem__),
    )
    return [
        Claim(f"default: mean FCT over PIAS ({default})", "< 1", f"{mean[default]:.3f}", mean[default] < 1),
        Claim(
            "default: deadlines missed",
            f"< PIAS ({missed['pias']:.1%})",
            f"{missed[default]:.1%}",
            missed[default] < missed["pias"],
        ),
        Claim(
            f"least mean FCT over PIAS ({fast})",
            f"≤ {GOAL_MEAN}",
            f"{mean[fast]:.3f}",
            mean[fast] <= GOAL_MEAN,
        ),
        Claim(
            f"fewest deadlines missed ({exact})",
            f"< Karuna ({missed['karuna']:.1%})",
            f"{missed[exact]:.1%}",
            missed[exact] < missed["karuna"],
        ),
        noted("deadlines that an idle network misses", f"{runs.median(HOPELESS, 'pias'):.2%}"),
        all_finished(runs),
    ]


SHOWN = {
    "all mean, us": ALL,
    "slowdown": SLOWDOWN,
    "small mean, us": SMALL,
    "with a deadline, us": TIMED,
    "without a deadline, us": PLAIN,
    "missed": MISSES,
}


def numbers(results: Results) -> dict[str, Any]:
    return results.runs.by_load(SHOWN)


def table(results: Results) -> str:
    """Medians over the seeds."""
    runs = results.runs
    heads = ("all, ms", "over PIAS", "with a deadline, ms", "without, ms", "slowdown", "missed, %")
    lines = [f"| scheme | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for name in runs.variants:
        values = (
            runs.median(ALL, name) / 1e3,
            median(runs.ratios(ALL, name, "pias")),
            runs.median(TIMED, name) / 1e3,
            runs.median(PLAIN, name) / 1e3,
            runs.median(SLOWDOWN, name),
            100 * runs.median(MISSES, name),
        )
        lines.append(f"| {name} | {' | '.join(f'{value:.3g}' for value in values)} |")
    return "\n".join(lines) + "\n"


def draw(results: Results) -> Figure:
    figure, [[panel]] = grid(1, 1, width=5.5, height=3.8)
    runs, values = results.runs, results.given["urgent_after"]

    def point(name: str) -> tuple[float, float]:
        return runs.median(ALL, name) / 1e3, 100 * runs.median(MISSES, name)

    found = [point(variant(value)) for value in values]
    line = line_of("sluice")
    panel.plot(*zip(*found, strict=True), "o-", color=line.colour, label="sluice, by urgent_after")
    for value, place in zip(values, found, strict=True):
        panel.annotate(value, place, xytext=(5, 4), textcoords="offset points", fontsize="small")
    for name in OTHERS:
        panel.plot(*point(name), "s", color=line_of(name).colour, label=line_of(name).title)
    panel.set(xlabel="mean FCT of all flows (ms)", ylabel="deadlines missed (%)", ylim=(0, None))
    legend_below(figure, panel)
    return figure


EXPERIMENT = Experiment(
    name="sluice_deadlines",
    claim="One setting of sluice chooses between the mean FCT and the deadlines missed.",
    figure="",
    minutes=30,
    about=__doc__,
    runner=Sweep(plan, columns),
    seeds=(1,),
    flows=40_000,
    options=(
        option(
            "--urgent-after",
            nargs="+",
            default=list(URGENT_AFTER),
            metavar="SIZE",
            help="values of urgent_after, the default of the scheme last (default: %(default)s)",
        ),
    ),
    quick={"flows": 5000},
    claims=claims,
    numbers=numbers,
    table=table,
    draw=draw,
)
