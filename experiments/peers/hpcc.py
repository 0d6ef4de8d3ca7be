# SPDX-License-Identifier: Apache-2.0
"""HPCC and DCQCN here beside those in HPCC's authors' ns-3: slowdown by flow size, under Facebook's Hadoop traffic.

320 hosts at 100 Gb/s in a fat tree of five pods, with links of 400 Gb/s between switches. The references are one run
each of the authors' simulator (hpcc.md). Our flows have the same distribution and rate, and differ by seed.
"""

import csv
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
from matplotlib.figure import Figure
from pyarrow.parquet import read_table

from experiments.kit.draw import grid
from experiments.kit.experiment import Claim, Experiment, Given, markdown_table
from experiments.kit.flows import Column
from experiments.kit.runners import Planned, ShortRuns, axes, one_group
from experiments.kit.runs import Results, all_finished
from sluice.policy.units import format_bytes
from sluice.runs.files import read_document
from sluice.runtime import plugins

HERE = Path(__file__).parent
REFERENCE_MEANS = {"hpcc": 1.193, "dcqcn": 1.535}
"""Scheme → the mean slowdown in the authors' simulator. SCHEME-ns3.csv has the percentiles by size."""
PODS, EDGES, HOSTS = 5, 4, 16
"""Pods; switches of each pod towards hosts, and as many above them; hosts at each."""
PAYLOAD_BYTES = 1000
IDEAL_HEADER_BYTES = 48
"""The authors' ideal has no telemetry in the packets."""
HOST_GBPS, CORE_GBPS, DELAY_NS = 100, 400, 1000
PERCENTILES = ("p50", "p95", "p99")
CLAIMED = {"hpcc": PERCENTILES, "dcqcn": ("p50",)}
"""The percentiles that agree at each size."""
WITHIN, MEAN_WITHIN = 0.1, 0.03
MEAN = "slowdown_by_authors"


def links() -> list[str]:
    """Return the links of the fat tree, those of hosts first."""
    edges = [(pod, edge) for pod in range(PODS) for edge in range(EDGES)]
    own = [f"h{HOSTS * (EDGES * p + e) + i + 1}-s{EDGES * p + e + 1}" for p, e in edges for i in range(HOSTS)]
    above, core = PODS * EDGES, 2 * PODS * EDGES
    up = [f"s{EDGES * p + e + 1}-s{above + EDGES * p + a + 1}" for p, e in edges for a in range(EDGES)]
    top = [
        f"s{above + EDGES * p + a + 1}-s{core + EDGES * a + c + 1}" for p, a in edges for c in range(EDGES)
    ]
    return [*own, *up, *top]


def write_topology(folder: Path) -> Path:
    """Write the fat tree to a file, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = (folder / "fat-tree.toml").resolve()
    path.write_text("links = [\n" + "".join(f'  "{link}",\n' for link in links()) + "]\n")
    return path


def plan(given: Given) -> Mapping[str, Planned]:
    for scheme in REFERENCE_MEANS:
        plugins.use(HERE / f"{scheme}.h")
    document = read_document(HERE / "hpcc.toml")
    document["fabric"]["file"] = str(write_topology(given.out))
    return one_group(given, axes(given, document, schemes=list(REFERENCE_MEANS)))


def ideal_ns(source: Column, sink: Column, size_bytes: Column) -> Column:
    """Return the FCT in an empty network as the authors' simulator computes it, from the numbers of the hosts."""
    same_edge, same_pod = (
        source // HOSTS == sink // HOSTS,
        source // (HOSTS * EDGES) == sink // (HOSTS * EDGES),
    )
    between = np.where(same_edge, 0, np.where(same_pod, 2, 4))
    trip_ns = (
        2 * DELAY_NS * (between + 2)
        + 8 * PAYLOAD_BYTES * 2 / HOST_GBPS
        + 8 * PAYLOAD_BYTES * between / CORE_GBPS
    )
    packets = np.ceil(size_bytes / PAYLOAD_BYTES)
    ideal: Column = trip_ns + 8 * (size_bytes + IDEAL_HEADER_BYTES * packets) / HOST_GBPS
    return ideal


def columns(bundle: Path) -> dict[str, float]:
    """Percentiles of the slowdown in each interval of the references, and the mean of all flows."""
    flows = read_table(bundle / "flows.parquet", columns=["src", "dst", "bytes", "fct_us"])
    source, sink = (
        np.asarray([int(name[1:]) - 1 for name in flows[end].to_pylist()]) for end in ("src", "dst")
    )
    size_bytes, fct_us = (flows[name].to_numpy() for name in ("bytes", "fct_us"))
    slowdown = np.maximum(1, 1000 * fct_us / ideal_ns(source, sink, size_bytes))
    found = {MEAN: float(slowdown.mean())}
    for low, high in pairwise([0, *reference("hpcc")]):
        part = slowdown[(size_bytes > low) & (size_bytes <= high)]
        found |= {f"{name} {high}": float(np.percentile(part, int(name[1:]))) for name in PERCENTILES}
    return found


def reference(scheme: str) -> dict[int, dict[str, float]]:
    """Largest size of an interval in bytes → percentiles of the slowdown in the authors' simulator."""
    with (HERE / f"{scheme}-ns3.csv").open() as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {int(row["most_bytes"]): {name: float(row[name]) for name in PERCENTILES} for row in rows}


def ours(results: Results, scheme: str) -> dict[int, dict[str, float]]:
    """The same of our runs: medians over the seeds."""
    runs = results.runs
    return {
        size: {name: median(runs.values(f"{name} {size}", scheme)) for name in PERCENTILES}
        for size in reference(scheme)
    }


def claims(results: Results) -> list[Claim]:
    verdict = [all_finished(results.runs, "unfinished flows")]
    for scheme, theirs_mean in REFERENCE_MEANS.items():
        measured, theirs = ours(results, scheme), reference(scheme)
        mean = median(results.runs.values(MEAN, scheme)) / theirs_mean
        what = f"{scheme}: mean slowdown, ours over theirs"
        verdict.append(Claim(what, "1", f"{mean:.3f}", abs(mean - 1) <= MEAN_WITHIN))
        for name in CLAIMED[scheme]:
            ratios = [measured[size][name] / theirs[size][name] for size in theirs]
            holds = all(abs(ratio - 1) <= WITHIN for ratio in ratios)
            text = f"{min(ratios):.2f} … {max(ratios):.2f}"
            what = f"{scheme}: {name} of the slowdown in each of {len(ratios)} intervals of size"
            verdict.append(Claim(what, "1", text, holds))
    return verdict


def table(results: Results) -> str:
    blocks = []
    for scheme in REFERENCE_MEANS:
        measured, theirs = ours(results, scheme), reference(scheme)
        rows = [
            (format_bytes(size), *(f"{measured[size][p]:.3f} / {theirs[size][p]:.3f}" for p in PERCENTILES))
            for size in theirs
        ]
        names = (f"{scheme}, flows up to", *(f"{p}, ours / theirs" for p in PERCENTILES))
        blocks.append(markdown_table(names, rows, "---:"))
    return "\n\n".join(blocks)


def draw(results: Results) -> Figure:
    """Slowdown against size: lines are ours, crosses theirs."""
    figure, [panels] = grid(1, len(REFERENCE_MEANS), width=4.4, height=3.6, sharey=True)
    for axes_, scheme in zip(panels, REFERENCE_MEANS, strict=True):
        for name, colour in zip(PERCENTILES, ("#4477aa", "#228833", "#ee6677"), strict=True):
            for of, style, label in (
                (ours(results, scheme), "-", f"{name}, here"),
                (reference(scheme), "x", f"{name}, authors' ns-3"),
            ):
                axes_.plot(list(of), [value[name] for value in of.values()], style, color=colour, label=label)
        axes_.set(xscale="log", yscale="log", xlabel="flow size (bytes, upper end of the interval)")
        axes_.set_title(scheme.upper(), fontsize="medium")
        axes_.set_yticks([1, 2, 3, 4, 6, 10], ["1", "2", "3", "4", "6", "10"])
    panels[0].set_ylabel("slowdown")
    panels[0].legend(frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    claim="HPCC here has the slowdowns of its authors' ns-3 at each size within 10 %, and DCQCN the medians.",
    figure="Li et al., SIGCOMM 2019, section 5.3, by their simulator",
    minutes=8,
    runner=ShortRuns(plan, columns=columns),
    seeds=(1, 2, 3),
    flows=50_000,
    quick={"seeds": (1,), "flows": 10_000},
    claims=claims,
    table=table,
    draw=draw,
)
