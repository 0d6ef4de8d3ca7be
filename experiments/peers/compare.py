# SPDX-License-Identifier: Apache-2.0
"""L²DCT, TIMELY, DCQCN, Swift, HPCC, Homa, DCTCP, PIAS, pFabric and sluice on one fabric: slowdown by flow size.

All schemes have the same flows. In the first table each has the rules of its own paper: buffer, ACKs, timeouts, and
whether the packets of a flow take several paths. In the second one, all have the same: one path for a flow, an ACK for
each packet, and the same buffer and timeouts. The first five are the files beside this one, loaded as plugins.
"""

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.kit.draw import Line, curve, grid, legend_below, log_scale
from experiments.kit.experiment import Claim, Experiment, Given, markdown_table, some_of
from experiments.kit.flows import read_flow_columns
from experiments.kit.runners import Planned, ShortRuns, axes
from experiments.kit.runs import Results, Runs, all_finished, median_at_most
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
    "dcqcn": Line("DCQCN, with PFC", "#117733"),
    "swift": Line("Swift", "#aa3377"),
    "hpcc": Line("HPCC", "#228833"),
    "pias": Line("PIAS", "#ccbb44"),
    "pfabric": Line("pFabric (knows sizes)", "0.45", "--"),
    "homa": Line("Homa (knows sizes)", "#661100", "--"),
    "sluice": Line("sluice", "#ee6677", width=2.5),
    "sluice-low": Line("sluice, thresholds from 1 KB", "#66ccee", "--", width=2.5),
}
WORKLOADS = ("web-search", "facebook-hadoop", "data-mining")
RULES = ("own", "equal")
EQUAL = {
    "transport": {"connections": "persistent", "initial_window": 70, "max_window": 239, "rto_min": "20ms"},
    "simulator": {"multipath": "per-flow", "packets_per_ack": 1},
}
EQUAL_BUFFER = "1950KB"
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
PERCENTILES = (50, 95, 99)
MEAN = "slowdown_all_mean"


def document_of(workload: str, rules: str) -> dict[str, Any]:
    """Return the scenario of one group."""
    document = read_document(SCENARIO)
    document["workload"] |= {"sizes": workload}
    if rules == "equal":
        for name in LINES:
            own = document["sweep"]["scheme"][name]
            document["sweep"]["scheme"][name] = {
                **{key: value for key, value in own.items() if key not in EQUAL},
                "buffer": EQUAL_BUFFER,
                **EQUAL,
            }
    return document


def plan(given: Given) -> Mapping[str, Planned]:
    for name in FILES:
        plugins.use(HERE / f"{name}.h")
    return {
        f"{workload}, {rules} rules": Planned(
            given.out / f"{workload}-{rules}", axes(given, document_of(workload, rules), schemes=list(LINES))
        )
        for workload in given["workloads"]
        for rules in given["rules"]
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
                    ratios = runs.ratios(MEAN, "sluice", other, load)
                    limit = 1.1 if other in KNOW_SIZES else 1.0
                    what = f"{name}, load {load:g}: mean slowdown, sluice over {other}"
                    why = EXPLANATIONS.get(other, "") if other in KNOW_SIZES or name.startswith(TINY) else ""
                    verdict.append(median_at_most(what, ratios, limit, why))
    return verdict


def table(results: Results, lines: Mapping[str, Line] = LINES) -> str:
    """Return a table for each group and load: percentiles of the slowdown by flow size."""
    blocks = []
    for name, runs in results.groups.items():
        for load in runs.loads:
            blocks += [
                f"{name}, load {load:g}: p50 / p95 / p99 of the slowdown, by the median size of a tenth of the flows",
                "",
            ]
            sizes = [
                format_bytes(round(runs.median(f"size {i}", next(iter(lines)), load))) for i in range(BINS)
            ]
            rows = [
                (
                    line.title,
                    f"{runs.median(MEAN, scheme, load):.2f}",
                    *(_cell(runs, scheme, load, i) for i in range(BINS)),
                )
                for scheme, line in lines.items()
            ]
            blocks += [markdown_table(("scheme", "mean", *sizes), rows, "---:"), ""]
    return "\n".join(blocks)


def _cell(runs: Runs, scheme: str, load: float, place: int) -> str:
    values = (runs.median(f"p{percent} {place}", scheme, load) for percent in PERCENTILES)
    return " / ".join(f"{value:.3g}" for value in values)


def draw(results: Results, lines: Mapping[str, Line] = LINES) -> Figure:
    """A panel for each group, at its highest load: p99 of the slowdown against size, with the range of the seeds."""
    figure, [panels] = grid(1, len(results.groups), width=3.6, height=3.3, sharey=True)
    for panel, (name, runs) in zip(panels, results.groups.items(), strict=True):
        load = max(runs.loads)
        for marker, (scheme, line) in zip("osD<^vPXh*p", lines.items(), strict=False):
            sizes = [runs.median(f"size {i}", scheme, load) / 1e3 for i in range(BINS)]
            values = [runs.values(f"p99 {i}", scheme, load) for i in range(BINS)]
            curve(panel, sizes, values, line, median, marker)
        panel.set(xscale="log", xlabel="flow size (KB)")
        panel.set_title(f"{name}, load {load:g}", fontsize="medium")
        log_scale(panel)
    panels[0].set_ylabel("p99 slowdown")
    legend_below(figure, panels[0])
    return figure


EXPERIMENT = Experiment(
    claim="Under web search, no transport that knows no sizes has a lower mean slowdown than sluice.",
    minutes=240,
    runner=ShortRuns(plan, columns=columns),
    seeds=(1, 2, 3),
    loads=(0.5, 0.8),
    flows=20_000,
    options=(
        some_of("--workloads", WORKLOADS, "distributions of flow sizes"),
        some_of("--rules", RULES, "each scheme's own rules, or the same for all"),
    ),
    quick={"seeds": (1,), "loads": (0.8,), "flows": 3000, "workloads": ["web-search"], "rules": ["own"]},
    claims=claims,
    table=table,
    draw=draw,
)
