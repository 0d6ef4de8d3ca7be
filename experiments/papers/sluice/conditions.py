# SPDX-License-Identifier: Apache-2.0
"""Scheme sluice beside PIAS in conditions that PIAS's evaluation lacks.

These are incasts beside load, links of 10, 40 and 100 Gb/s, racks with two and four times as much traffic as links to
the spines, and a dead link. Transport, ACKs, buffer and marks are the same for all schemes. PIAS has two lists of
thresholds: its authors' for web search at load 0.8, and those of least mean slowdown for the traffic of the run. In
each condition, sluice is compared with the list that has the lower mean FCT. All runs of a condition have the same
flows. Three variants of sluice show what makes it worse in a class: sluice-large has no threshold above 4.22 MB,
sluice-first has a first threshold below K, and sluice-deep a larger buffer, as pias-deep has.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.kit.draw import grid, legend_below, line_of
from experiments.kit.experiment import Claim, Experiment, Given, markdown_table, some_of
from experiments.kit.flows import percentile, read_flow_columns
from experiments.kit.runners import Planned, ShortRuns, named
from experiments.kit.runs import Results, Runs, all_finished, median_at_most
from experiments.papers.sluice.traffic import ANSWER_BYTES, Incasts, Traffic, pias_thresholds, write_table
from sluice.policy.schemes import SLUICE
from sluice.policy.thresholds.static import optimal_thresholds
from sluice.policy.units import WIRE_PER_PAYLOAD, size_bytes
from sluice.policy.workload.scenario import scenario_from_document
from sluice.runs.files import load_cdf, read_document
from sluice.sweep.points import Point
from sluice.topologies import build_fabric

SCENARIO = Path(__file__).with_name("conditions.toml")
SIZES = "web-search"
PIAS_QUEUES = 8
PIAS = ("pias-authors", "pias-best")
PUBLISHED = "pias-shallow"
"""PIAS with the best thresholds in the buffer and with the timeouts of its evaluation."""
DEEP = "pias-deep"
"""PIAS with the best thresholds in the buffer of sluice-deep."""
PAIRS = {
    "sluice": "",
    "sluice-large": "",
    "sluice-first": "",
    "sluice-deep": DEEP,
    "sluice, PIAS as published": PUBLISHED,
}
"""Rows of the table: a variant of sluice → the variant of PIAS that it is compared with; empty: the better list."""
MOST_THRESHOLD, LEAST_THRESHOLD, DEEP_BUFFER = "4.22MB", "20KB", "2925KB"
WAITING_BYTES = 7 * 65 * 1500
"""What waits at a busy port of sluice: K in four queues, and 3 K in the last one."""
WITHIN = 1.02
ALL = "fct_us_all_mean"
REQUEST = "request"
CLASSES = {
    "all": ALL,
    "small": "fct_us_small_mean",
    "small p99": "fct_us_small_p99",
    "medium": "fct_us_medium_mean",
    "large": "fct_us_large_mean",
    "slowdown": "slowdown_all_mean",
    "requests": f"{REQUEST}_mean",
    "requests p99": f"{REQUEST}_p99",
}
"""Title → column."""


@dataclass(frozen=True)
class Condition:
    """One network and its traffic."""

    load: float = 0.8
    """Load of the busiest host's link, answers to requests not counted."""
    incasts: Incasts | None = None
    fabric: Mapping[str, Any] = field(default_factory=dict)
    """Keys of [fabric] that differ from the scenario. With a file, they are the whole table."""
    transport: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the scenario without its flows."""
        document = read_document(SCENARIO)
        usual = {} if "file" in self.fabric else document["fabric"]
        document["fabric"] = {**usual, **self.fabric}
        document["transport"] |= self.transport
        return document

    def traffic(self) -> Traffic:
        topology = build_fabric(scenario_from_document(self.document(), load_cdf).fabric)
        rates = tuple(topology.edge_port(host.name).rate_bps for host in topology.hosts)
        return Traffic(load_cdf(SIZES), self.load, rates, self.incasts)


def _beside(fan_in: int) -> Condition:
    """Web search, and requests whose answers add 2 % of load."""
    return Condition(incasts=Incasts(fan_in, 0.02))


MIXED_RATES = {
    "file": str(SCENARIO.with_name("mixed_rates.toml")),
    "host_rate": "10Gbit",
    "core_rate": "400Gbit",
    "link_delay": "0.2us",
    "host_delay": "20us",
}
# 8 of the 15 other hosts are in the other rack. So at load 0.75, a rack sends 32 Gb/s to the spines.
CONDITIONS: Mapping[str, Condition] = {
    "as evaluated": Condition(),
    "incast of 8": _beside(8),
    "incast of 32": _beside(32),
    "incast of 64": _beside(64),
    "10, 40, 100 Gb/s": Condition(0.7, fabric=MIXED_RATES, transport={"max_window": 2000}),
    "oversubscribed 2:1": Condition(0.75, fabric={"core_rate": "20Gbit"}),
    "oversubscribed 4:1": Condition(0.375, fabric={"core_rate": "10Gbit"}),
    "dead link": Condition(0.75, fabric={"down": ["s1-s3"]}),
}


def schemes(traffic: Traffic) -> dict[str, dict[str, Any]]:
    """Return the tables in which each scheme differs under this traffic."""
    common = {key: value for key, value in read_document(SCENARIO)["scheme"].items() if key != "name"}
    best = optimal_thresholds(traffic.all_sizes, min(traffic.total_load, 0.95), PIAS_QUEUES)
    lists = {"pias-authors": pias_thresholds(SIZES, 0.8), "pias-best": best}
    pias = {name: {"name": "pias", **common, "thresholds": list(values)} for name, values in lists.items()}
    sluice = {"name": "sluice", **common}
    first = {"least_threshold": LEAST_THRESHOLD, "thresholds": [best[0], *SLUICE.thresholds_bytes[1:]]}
    return {
        **{name: {"scheme": scheme} for name, scheme in pias.items()},
        PUBLISHED: {"scheme": {**pias["pias-best"], "buffer": "360KB"}, "transport": {"rto_min": "2ms"}},
        DEEP: {"scheme": {**pias["pias-best"], "buffer": DEEP_BUFFER}},
        "sluice": {"scheme": sluice},
        "sluice-large": {"scheme": {**sluice, "most_threshold": MOST_THRESHOLD}},
        "sluice-first": {"scheme": {**sluice, **first}},
        "sluice-deep": {"scheme": {**sluice, "buffer": DEEP_BUFFER}},
    }


def plan(given: Given) -> Mapping[str, Planned]:
    planned = {}
    for name in given["conditions"]:
        traffic, document = CONDITIONS[name].traffic(), CONDITIONS[name].document()
        folder = given.out / re.sub(r"[^A-Za-z0-9]+", "-", name)
        points: list[Point] = []
        for seed in given.seeds:
            path = write_table(traffic, given.flows, seed, (folder / f"flows-{seed}.csv").resolve())
            document["workload"] = {"trace": str(path), "vary": False}
            points += [named(document, scheme, seed, **tables) for scheme, tables in schemes(traffic).items()]
        planned[name] = Planned(folder, points)
    return planned


def columns(bundle: Path) -> dict[str, float]:
    """Mean and p99 time from a request to its last answer; nan without requests. The answers start together."""
    flows = read_flow_columns(bundle)
    _, request, answers = np.unique(flows.started_s, return_inverse=True, return_counts=True)
    last_us = np.zeros(len(answers))
    np.maximum.at(last_us, request, flows.fct_us)
    last_us = last_us[answers > 1]
    mean_us = float(last_us.mean()) if len(last_us) else np.nan
    return {f"{REQUEST}_mean": mean_us, f"{REQUEST}_p99": percentile(last_us, 99)}


def best_pias(runs: Runs) -> str:
    """Return the variant of PIAS with the lower mean FCT."""
    return min(PIAS, key=lambda name: runs.median(ALL, name))


def ratios(runs: Runs, scheme: str, over: str = "") -> dict[str, float]:
    """Title of a figure → the median over the seeds of the ratio to PIAS. Figures that the runs lack are left out."""
    over = over or best_pias(runs)
    by_title = {title: median(runs.ratios(column, scheme, over)) for title, column in CLASSES.items()}
    return {title: ratio for title, ratio in by_title.items() if not np.isnan(ratio)}


def claims(results: Results) -> list[Claim]:
    verdict = []
    for name, runs in results.groups.items():
        for title, ratio in ratios(runs, "sluice").items():
            why = explanation(CONDITIONS[name], title)
            verdict.append(median_at_most(f"{name}: {title}, over PIAS", [ratio], WITHIN, why))
        verdict.append(all_finished(runs, f"{name}: unfinished flows"))
    return verdict


def explanation(condition: Condition, title: str) -> str:
    """Return why sluice may be worse in a class, or nothing if that is not known."""
    if title == "large":
        return (
            "flows of 3 to 10 MB have levels of their own before them (sluice_bounds); sluice-large has not"
        )
    if condition.incasts is None or title in ("all", "medium"):
        return ""
    answers = condition.incasts.fan_in * ANSWER_BYTES * WIRE_PER_PAYLOAD
    if answers > size_bytes("buffer", read_document(SCENARIO)["scheme"]["buffer"]) - WAITING_BYTES:
        return "what waits in lower queues leaves no room for all answers; sluice-deep has it"
    return "answers share the first queue with the first K bytes of each flow; sluice-first does not"


def table(results: Results) -> str:
    """Ratios to PIAS, medians over the seeds."""
    rows = []
    for name, runs in results.groups.items():
        for row, over in PAIRS.items():
            by_title = ratios(runs, row.partition(",")[0], over)
            cells = (f"{by_title[title]:.2f}" if title in by_title else "–" for title in CLASSES)
            rows.append((name, row, *cells))
    return markdown_table(("condition", "scheme", *CLASSES), rows) + "\n"


def draw(results: Results) -> Figure:
    """The ratio of each class in each condition."""
    figure, [[panel]] = grid(1, 1, width=8, height=3.6)
    places = np.arange(len(results.groups))
    line = line_of("sluice")
    for title, marker in {"all": "o", "small p99": "v", "medium": "s", "large": "^", "slowdown": "x"}.items():
        values = [ratios(runs, "sluice")[title] for runs in results.groups.values()]
        panel.plot(places, values, marker, color=line.colour, label=title, alpha=0.8)
    panel.axhline(1, color="0.4", linewidth=0.8)
    panel.set_xticks(places, list(results.groups), rotation=20, fontsize="small")
    panel.set(ylabel="sluice over PIAS", ylim=(0, None))
    legend_below(figure, panel)
    return figure


EXPERIMENT = Experiment(
    claim="Sluice is at most 2 % worse than PIAS in any class, also beside incasts and on scarce links.",
    minutes=15,
    runner=ShortRuns(plan, columns),
    seeds=(1, 2),
    flows=10_000,
    options=(
        some_of("--conditions", CONDITIONS, f"networks and traffic: {', '.join(CONDITIONS)}", metavar="NAME"),
    ),
    quick={"seeds": (1,), "flows": 1000},
    claims=claims,
    table=table,
    draw=draw,
)
