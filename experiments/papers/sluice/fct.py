# SPDX-License-Identifier: Apache-2.0
"""Scheme sluice against PIAS, pFabric and Karuna: FCT and slowdown by flow size, told sizes, deadlines, other loads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.kit.draw import grid, legend_below, line_of, log_scale
from experiments.kit.experiment import Claim, Experiment, Given, markdown_table, some_of
from experiments.kit.flows import read_flow_columns
from experiments.kit.runners import Planned, Sweep, axes
from experiments.kit.runs import Results, Runs, all_finished, median_at_most
from experiments.papers.sluice.traffic import pias_thresholds
from sluice.policy.schemes import SCHEMES
from sluice.runs.files import read_document

SCENARIO = Path(__file__).with_name("fabric.toml")
ALL, SLOWDOWN = "fct_us_all_mean", "slowdown_all_mean"
SMALL, TAIL = "fct_us_small_mean", "fct_us_small_p99"
MEDIUM, LARGE, MISSES = "fct_us_medium_mean", "fct_us_large_mean", "miss_ratio"
AROUND = {"300 KB": 3e5, "500 KB": 5e5, "1 MB": 1e6}
"""Sizes at which the mean slowdown is a figure of its own."""
WIDTH = 0.15
"""Flows count if their size is within this part of it."""
EDGES = np.geomspace(3e3, 3e7, 25)
"""Bytes between the points of the curve of slowdown against size."""


@dataclass(frozen=True)
class Group:
    """Runs with the same traffic."""

    schemes: Sequence[str]
    loads: Sequence[float] = (0.8,)
    changes: Mapping[str, Any] | None = None
    """Tables of the scenario that differ."""


TOLD = (25, 50, 75, 100)
DEADLINES = {"share": 0.3, "distribution": "uniform", "min": "20ms", "max": "100ms"}
ABLATIONS = {
    "growth of 1 packet": "sluice-growth-1",
    "last queue's threshold is K": "sluice-last-1",
    "marks by port": "sluice-port-marks",
    "marks by what is ahead": "sluice-ahead-marks",
    "1 % of the link for each": "sluice-shares",
    "flow queues": "sluice-flow-queues",
    "4 queues": "sluice-four-queues",
    "8 queues": "sluice-eight-queues",
    "timeouts of 2 ms": "sluice-short-timeouts",
    "last threshold 3.2 MB": "sluice-last-threshold",
    "last threshold 4.2 MB": "sluice-large",
}
GROUPS = {
    "web search": Group(
        ("pias", "pias-ack4", "pias-deep", "pfabric", "sluice", "sluice-ack1", "sluice-shallow")
    ),
    "large flows": Group(("sluice-large",)),
    "told": Group(tuple(f"sluice-told-{part}" for part in TOLD)),
    "deadlines": Group(("pias", "karuna", "sluice", "sluice-urgent"), changes={"deadlines": DEADLINES}),
    "loads": Group(("pias", "sluice"), (0.6, 0.9)),
    "data mining": Group(("pias", "sluice"), (0.6, 0.8), {"workload": {"sizes": "data-mining"}}),
    "ablations": Group(tuple(ABLATIONS.values())),
}


def document_of(group: Group) -> dict[str, Any]:
    """Return the group's scenario, with PIAS's thresholds for its workload and loads."""
    document = read_document(SCENARIO)
    for table, values in (group.changes or {}).items():
        document[table] = {**document.get(table, {}), **values}
    sizes = document["workload"]["sizes"]
    document["sweep"]["scheme"]["pias"] |= {
        f"{load:g}": {"thresholds": list(pias_thresholds(sizes, load))} for load in group.loads
    }
    return document


def plan(given: Given) -> Mapping[str, Planned]:
    planned = {}
    for name in given["groups"]:
        group = GROUPS[name]
        points = [
            point
            for load in group.loads
            for point in axes(replace(given, loads=(load,)), document_of(group), schemes=group.schemes)
        ]
        planned[name] = Planned(given.out / name.replace(" ", "-"), points)
    return planned


def columns(bundle: Path) -> dict[str, float]:
    """Mean slowdown around each size, and in each interval of the curve; nan without flows."""
    flows = read_flow_columns(bundle)
    near = {name: np.abs(flows.bytes / size - 1) <= WIDTH for name, size in AROUND.items()}
    around = {name: _mean(flows.slowdown[chosen]) for name, chosen in near.items()}
    place = np.digitize(flows.bytes, EDGES)
    return around | {f"interval {i}": _mean(flows.slowdown[place == i]) for i in range(1, len(EDGES))}


def _mean(values: Any) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else np.nan


@dataclass(frozen=True)
class Goal:
    """The greatest ratio of a figure to the same figure of another scheme, or the greatest value."""

    what: str
    group: str
    column: str
    scheme: str
    limit: float
    over: str | None = None
    load: float = 0.8

    def claim(self, results: Results) -> Claim | None:
        """None if the runs were not asked for."""
        own = self.over is None or self.over in GROUPS[self.group].schemes
        ours, theirs = (
            results.groups.get(name) for name in (self.group, self.group if own else "web search")
        )
        if ours is None or theirs is None:
            return None
        values = ours.values(self.column, self.scheme, self.load)
        if self.over:
            others = theirs.values(self.column, self.over, self.load)
            values = [a / b for a, b in zip(values, others, strict=True)]
        return median_at_most(self.what, values, self.limit)


def _classes(group: str, load: float) -> list[Goal]:
    """No class of flows that people wait for may lose."""
    where = f"{group}, load {load:g}"
    return [
        Goal(f"{where}: {name}, over PIAS", group, column, "sluice", 1.0, "pias", load)
        for name, column in {"small": SMALL, "medium": MEDIUM}.items()
    ]


GOALS = (
    Goal("all, over PIAS", "web search", ALL, "sluice", 0.88, "pias"),
    Goal("all, over pFabric", "web search", ALL, "sluice", 1.0, "pfabric"),
    Goal("all, over PIAS, an ACK a packet", "web search", ALL, "sluice-ack1", 0.92, "pias"),
    Goal("all, over PIAS, an ACK for four", "web search", ALL, "sluice", 0.92, "pias-ack4"),
    Goal("small, over pFabric", "web search", SMALL, "sluice", 1.03, "pfabric"),
    Goal("small p99, over pFabric", "web search", TAIL, "sluice", 1.15, "pfabric"),
    Goal("medium, over PIAS", "web search", MEDIUM, "sluice", 0.75, "pias"),
    Goal("large, over PIAS", "web search", LARGE, "sluice", 1.1, "pias"),
    Goal("slowdown, over PIAS", "web search", SLOWDOWN, "sluice", 0.66, "pias"),
    Goal("slowdown, over pFabric", "web search", SLOWDOWN, "sluice", 1.08, "pfabric"),
    Goal("slowdown at 300 KB", "web search", "300 KB", "sluice", 1.3),
    Goal("slowdown at 500 KB", "web search", "500 KB", "sluice", 1.5),
    Goal("slowdown at 1 MB", "web search", "1 MB", "sluice", 1.8),
    Goal("shallow buffer: all, over PIAS", "web search", ALL, "sluice-shallow", 0.88, "pias"),
    Goal("shallow buffer: large, over PIAS", "web search", LARGE, "sluice-shallow", 1.1, "pias"),
    Goal("no threshold above 4.2 MB: all, over PIAS", "large flows", ALL, "sluice-large", 0.88, "pias"),
    Goal("no threshold above 4.2 MB: medium", "large flows", MEDIUM, "sluice-large", 0.75, "pias"),
    Goal("no threshold above 4.2 MB: large", "large flows", LARGE, "sluice-large", 1.1, "pias"),
    Goal("no threshold above 4.2 MB: slowdown", "large flows", SLOWDOWN, "sluice-large", 0.66, "pias"),
    Goal("half told: all, over PIAS", "told", ALL, "sluice-told-50", 0.78, "pias"),
    Goal("half told: all, over pFabric", "told", ALL, "sluice-told-50", 0.9, "pfabric"),
    Goal("deadlines: all, over PIAS", "deadlines", ALL, "sluice", 0.85, "pias"),
    Goal("deadlines: misses, over PIAS", "deadlines", MISSES, "sluice", 1.0, "pias"),
    Goal(
        "deadlines, urgent after 1 MB: misses, over Karuna",
        "deadlines",
        MISSES,
        "sluice-urgent",
        1.0,
        "karuna",
    ),
    Goal("deadlines, urgent after 1 MB: all, over PIAS", "deadlines", ALL, "sluice-urgent", 1.0, "pias"),
    Goal("load 0.6: all, over PIAS", "loads", ALL, "sluice", 0.89, "pias", 0.6),
    Goal("load 0.9: all, over PIAS", "loads", ALL, "sluice", 0.85, "pias", 0.9),
    *_classes("loads", 0.6),
    *_classes("loads", 0.9),
    Goal("data mining, load 0.6: all, over PIAS", "data mining", ALL, "sluice", 0.95, "pias", 0.6),
    Goal("data mining, load 0.8: all, over PIAS", "data mining", ALL, "sluice", 0.95, "pias", 0.8),
    *_classes("data mining", 0.6),
    *_classes("data mining", 0.8),
)


def claims(results: Results) -> list[Claim]:
    goals = [claim for goal in GOALS if (claim := goal.claim(results))]
    ends = [all_finished(runs, f"{name}: unfinished flows") for name, runs in results.groups.items()]
    return goals + ends


SHOWN: Mapping[str, tuple[str, float]] = {
    "all ms": (ALL, 1e-3),
    "slowdown": (SLOWDOWN, 1),
    "small µs": (SMALL, 1),
    "p99": (TAIL, 1),
    "medium ms": (MEDIUM, 1e-3),
    "large ms": (LARGE, 1e-3),
    **{name: (name, 1) for name in AROUND},
    "missed %": (MISSES, 100),
    "retx": ("retransmissions", 1),
}


def table(results: Results) -> str:
    """The median over the seeds of each figure."""
    blocks = []
    for name, runs in results.groups.items():
        rows = []
        for scheme, load in product(runs.variants, runs.loads):
            shown = (_text(factor * runs.median(column, scheme, load)) for column, factor in SHOWN.values())
            rows.append((scheme, f"{load:g}", *shown))
        blocks.append(markdown_table((name, "load", *SHOWN), rows) + "\n")
    return "\n".join(blocks)


def _text(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


CURVES = ("pias", "pfabric", "sluice")


def draw(results: Results) -> Figure:
    """Slowdown against size, and what each part of the scheme gives."""
    figure, [[by_size, by_part]] = grid(1, 2, width=4.6, height=3.6)
    if runs := results.groups.get("web search"):
        middles = np.sqrt(EDGES[:-1] * EDGES[1:])
        for scheme in CURVES:
            values = [runs.median(f"interval {i}", scheme) for i in range(1, len(EDGES))]
            by_size.plot(middles / 1e3, values, color=line_of(scheme).colour, label=line_of(scheme).title)
        by_size.set(xscale="log", xlabel="flow size (KB)", ylabel="mean slowdown")
        log_scale(by_size)
        legend_below(figure, by_size)
        if parts := results.groups.get("ablations"):
            _draw_parts(by_part, runs, parts)
    return figure


def _draw_parts(axes_: Any, whole: Runs, parts: Runs) -> None:
    """One bar for each ablation: by how much the mean FCT and the mean slowdown rise."""
    names = list(ABLATIONS)
    for shift, (column, title) in enumerate({ALL: "mean FCT", SLOWDOWN: "mean slowdown"}.items()):
        base = whole.median(column, "sluice")
        changes = [100 * (parts.median(column, ABLATIONS[name]) / base - 1) for name in names]
        colour = SCHEMES["sluice"].colour if shift else "0.6"
        axes_.barh(np.arange(len(names)) + 0.35 * shift, changes, 0.35, color=colour, label=title)
    axes_.set_yticks(np.arange(len(names)) + 0.175, names, fontsize="small")
    axes_.invert_yaxis()
    axes_.set(xlabel="change to sluice (%)")
    axes_.legend(frameon=False, fontsize="small")


EXPERIMENT = Experiment(
    claim="Sluice beats PIAS without knowing sizes, and pFabric's mean FCT when sizes are told.",
    minutes=120,
    runner=Sweep(plan, columns),
    seeds=(1, 2, 3),
    flows=100_000,
    options=(some_of("--groups", GROUPS, "traffic to run"),),
    quick={"seeds": (1,), "flows": 5000, "groups": ["web search", "told"]},
    claims=claims,
    table=table,
    draw=draw,
)
