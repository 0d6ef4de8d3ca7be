# SPDX-License-Identifier: Apache-2.0
"""L²DCT, TIMELY, DCQCN, Swift, HPCC, Homa, DCTCP, PIAS, pFabric and sluice on two fabrics: slowdown by flow size.

All schemes have the same flows. In the first tables each has the rules of its own paper: buffer, ACKs, timeouts, and
whether the packets of a flow take several paths. In the others, all have the same: one path for a flow, an ACK for
each packet, and the same buffer and timeouts. The first five are the files beside this one, loaded as plugins.
"""

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.kit.draw import Line, curve, grid, legend_below, log_scale
from experiments.kit.experiment import Claim, Experiment, Given, markdown_table, some_of
from experiments.kit.flows import read_flow_columns
from experiments.kit.runners import Planned, ShortRuns, axes
from experiments.kit.runs import Results, Runs, all_finished, with_interval
from experiments.peers.hpcc import write_topology
from sluice.policy.units import format_bytes
from sluice.runs.files import read_document
from sluice.runtime import plugins

HERE = Path(__file__).parent
SCENARIO = HERE / "fabric.toml"
FILES = ("l2dct", "timely", "dcqcn", "swift", "hpcc")
LINES = {
    "dctcp": Line("DCTCP", "#4477aa"),
    "l2dct": Line("L²DCT", "#332288"),
    "timely": Line("TIMELY", "#999933"),
    "dcqcn": Line("DCQCN", "#117733"),
    "swift": Line("Swift", "#aa3377"),
    "hpcc": Line("HPCC", "#228833"),
    "pias": Line("PIAS", "#ccbb44"),
    "pfabric": Line("pFabric (knows sizes)", "0.45", "--"),
    "homa": Line("Homa (knows sizes)", "#661100", "--"),
    "sluice": Line("sluice", "#ee6677", width=2.5),
    "sluice-low": Line("sluice, thresholds from 1 KB", "#66ccee", "--", width=2.5),
}
RULES = ("own", "equal")
EQUAL = {"multipath": "per-flow", "packets_per_ack": 1}
"""Table [simulator] under equal rules; transport and buffer are then those of the scenario's first tables."""
FLOWS = {
    "144": {"web-search": 10_000, "facebook-hadoop": 10_000, "data-mining": 1_500},
    "320": {"web-search": 5_000, "facebook-hadoop": 20_000, "data-mining": 5_000},
}
"""Hosts → workload → flows of a run. Those of data mining have a mean of 7.5 MB."""
TINY = "facebook-hadoop"
"""A workload whose flows mostly have some hundred bytes."""
KNOW_SIZES = ("pfabric", "homa")
EXPLANATIONS = {
    "pfabric": "pFabric knows the size of every flow",
    "homa": "Homa knows the size of every flow",
    "pias": "no threshold of sluice is below K, so tiny flows wait behind the first K bytes of all; sluice-low's are",
}
BINS = 10
"""Intervals of flow size, with equal numbers of flows."""
SHOWN_BINS = range(1, BINS, 2)
"""Those in the table."""
PERCENTILES = (50, 95, 99)
MEAN = "slowdown_all_mean"


def document_of(hosts: str, workload: str, rules: str, given: Given) -> dict[str, Any]:
    """Return the scenario of one group."""
    document = read_document(SCENARIO)
    if hosts != "144":
        fat_tree = {**document, "fabric": {"file": str(write_topology(given.out))}}
        document = overlaid(fat_tree, read_document(HERE / "fat-tree.toml"))
    flows = FLOWS[hosts][workload] // (10 if given.quick else 1)
    document["workload"] |= {"sizes": workload, "flows": flows}
    return equal(document) if rules == "equal" else document


def overlaid(table: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table with the values of another, which may have some keys of an inner table only."""
    both = {key for key, value in over.items() if isinstance(value, dict) and key in table}
    return {**table, **over, **{key: overlaid(table[key], over[key]) for key in both}}


def equal(document: dict[str, Any]) -> dict[str, Any]:
    """Return the scenario with the same rules for all schemes."""
    buffer = {"buffer": document["scheme"]["buffer"]}
    schemes = {
        name: {key: value for key, value in own.items() if key not in ("transport", "simulator")} | buffer
        for name, own in document["sweep"]["scheme"].items()
    }
    return {**document, "simulator": EQUAL, "sweep": {"scheme": schemes}}


def plan(given: Given) -> Mapping[str, Planned]:
    for name in FILES:
        plugins.use(HERE / f"{name}.h")
    return {
        f"{workload}, {hosts} hosts, {rules} rules": Planned(
            given.out / f"{workload}-{hosts}-{rules}",
            axes(given, document_of(hosts, workload, rules, given), schemes=list(LINES)),
        )
        for hosts in given["hosts"]
        for rules in given["rules"]
        for workload in given["workloads"]
    }


def columns(bundle: Path) -> dict[str, float]:
    """Percentiles of the slowdown in each interval of size, and the median size there. Unfinished flows are worst."""
    flows = read_flow_columns(bundle)
    slowdown = np.where(np.isnan(flows.slowdown), np.inf, flows.slowdown)
    order = np.argsort(flows.bytes, kind="stable")
    found = {}
    for i, part in enumerate(np.array_split(order, BINS)):
        found[f"size {i}"] = float(np.median(flows.bytes[part]))
        for percent in PERCENTILES:
            found[f"p{percent} {i}"] = float(np.percentile(slowdown[part], percent, method="inverted_cdf"))
    return found


def claims(results: Results) -> list[Claim]:
    """Sluice needs no sizes and no telemetry, and no mean slowdown of the others is lower."""
    verdict = []
    for name, runs in results.groups.items():
        verdict.append(all_finished(runs, f"{name}: unfinished flows"))
        for load in runs.loads:
            for other in LINES:
                if not other.startswith("sluice"):
                    change = runs.change(MEAN, "sluice", other, load)
                    limit = 0.1 if other in KNOW_SIZES else 0.0
                    what = f"{name}, load {load:g}: mean slowdown, sluice to {other}"
                    why = EXPLANATIONS.get(other, "") if other in KNOW_SIZES or name.startswith(TINY) else ""
                    verdict.append(Claim(what, f"≤ {limit:.0%}", str(change), change.mean <= limit, why))
    return verdict


def table(results: Results, lines: Mapping[str, Line] = LINES) -> str:
    """Return a table for each group: mean slowdown, and p50 / p95 / p99 by the median size of a tenth of the flows."""
    blocks, first = [], next(iter(lines))
    for name, runs in results.groups.items():
        places = [(load, i) for load in runs.loads for i in SHOWN_BINS]
        sizes = [format_bytes(round(runs.median(f"size {i}", first, load))) for load, i in places]
        headings = [
            *(f"{load:g}: mean" for load in runs.loads),
            *(f"{load:g}: {size}" for (load, _), size in zip(places, sizes, strict=True)),
        ]
        rows = [
            (
                line.title,
                *(with_interval(runs.values(MEAN, scheme, load)) for load in runs.loads),
                *(_cell(runs, scheme, *place) for place in places),
            )
            for scheme, line in lines.items()
        ]
        blocks += [f"{name}:", "", markdown_table(("scheme", *headings), rows, "---:"), ""]
    return "\n".join(blocks)


def _cell(runs: Runs, scheme: str, load: float, place: int) -> str:
    values = (runs.median(f"p{percent} {place}", scheme, load) for percent in PERCENTILES)
    return " / ".join(f"{value:.3g}" for value in values)


def draw(results: Results, lines: Mapping[str, Line] = LINES) -> Figure:
    """A panel for each group, at its highest load: p99 of the slowdown against size, with the range of the seeds."""
    rows = -(-len(results.groups) // 4)
    figure, panels = grid(rows, -(-len(results.groups) // rows), width=3.6, height=3.3, sharey=True)
    for panel, (name, runs) in zip(chain(*panels), results.groups.items(), strict=True):
        load = max(runs.loads)
        for marker, (scheme, line) in zip("osD<^vPXh*p", lines.items(), strict=False):
            sizes = [runs.median(f"size {i}", scheme, load) / 1e3 for i in range(BINS)]
            values = [runs.values(f"p99 {i}", scheme, load) for i in range(BINS)]
            curve(panel, sizes, values, line, median, marker)
        panel.set(xscale="log", xlabel="flow size (KB)")
        panel.set_title(f"{name}, load {load:g}", fontsize="small")
        log_scale(panel)
    for row in panels:
        row[0].set_ylabel("p99 slowdown")
    legend_below(figure, panels[0][0])
    return figure


EXPERIMENT = Experiment(
    claim="Under web search, no transport that knows no sizes has a lower mean slowdown than sluice.",
    minutes=60,
    runner=ShortRuns(plan, columns=columns),
    seeds=(1, 2, 3),
    loads=(0.5, 0.8),
    options=(
        some_of("--hosts", FLOWS, "144 hosts at 10 Gb/s, 320 at 100 Gb/s"),
        some_of("--workloads", FLOWS["144"], "distributions of flow sizes"),
        some_of("--rules", RULES, "each scheme's own rules, or the same for all"),
    ),
    quick={
        "seeds": (1,),
        "loads": (0.8,),
        "hosts": ["144"],
        "workloads": ["web-search"],
        "rules": ["own"],
    },
    claims=claims,
    table=table,
    draw=draw,
)
