# SPDX-License-Identifier: Apache-2.0
"""The cost of a mismatched threshold, and the gain from adaptation, on real TCP."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

from experiments.kit.draw import grid
from experiments.kit.experiment import Claim, Experiment, Given, spread
from experiments.kit.runners import Planned, RunAfterRun, named, one_group
from experiments.kit.runs import Results
from sluice.policy.fabrics import TESTBED
from sluice.policy.schemes import SCHEMES
from sluice.runs.files import SCENARIOS, read_document

_MLFQ = {"queues": 2, "mark_at": "20pkt"}
_ADAPTIVE = {"name": "mlfq-adaptive", "percentiles": [10], "window_ms": 2500, "interval_ms": 500, **_MLFQ}
VARIANTS: Mapping[str, dict[str, Any]] = {
    "adaptive-from-1KB": {**_ADAPTIVE, "thresholds": ["1KB"]},
    "adaptive-from-1000KB": {**_ADAPTIVE, "thresholds": ["1000KB"]},
    "pias-1KB": {"name": "pias", "thresholds": ["1KB"], **_MLFQ},
    "pias-10KB": {"name": "pias", "thresholds": ["10KB"], **_MLFQ},
    "pias-1000KB": {"name": "pias", "thresholds": ["1000KB"], **_MLFQ},
    "dctcp": {"name": "dctcp", "mark_at": "20pkt"},
    "tcp": {"name": "tcp"},
}
"""Variant → table [scheme] of the scenario."""

FIGURES = {
    "small_mean": "fct_us_small_mean",
    "small_p99": "fct_us_small_p99",
    "long_mean": "fct_us_medium_mean",
    "long_p99": "fct_us_medium_p99",
}


@dataclass(frozen=True)
class Comparison:
    """A claim of the paper as a ratio: `better` over `worse`, which must be at most `limit`."""

    what: str
    better: str
    worse: str
    figure: str
    paper: str = "–"
    limit: float = 1.0
    explanation: str = ""


FROM_1KB, FROM_1000KB = "adaptive-from-1KB", "adaptive-from-1000KB"
COMPARISONS = (
    Comparison("small mean, start 1 KB", FROM_1KB, "pias-1KB", "small_mean", "0.67 … 0.95"),
    Comparison("small p99, start 1 KB", FROM_1KB, "pias-1KB", "small_p99", "0.41 … 0.66"),
    Comparison("long mean, start 1 KB", FROM_1KB, "pias-1KB", "long_mean", "no increase", 1.1),
    Comparison("small mean, start 1000 KB", FROM_1000KB, "pias-1000KB", "small_mean", "0.14 … 0.96"),
    Comparison("small p99, start 1000 KB", FROM_1000KB, "pias-1000KB", "small_p99", "0.06 … 0.49"),
    Comparison(
        "long mean, start 1000 KB",
        FROM_1000KB,
        "pias-1000KB",
        "long_mean",
        "0.53 … 0.73",
        0.95,
        "short flows carry 3.8 % of the bytes, and the queue conserves work. So their priority changes the time of "
        "long flows by at most that share. With either threshold the long flows share one FIFO",
    ),
    Comparison("small mean against the optimal threshold", FROM_1KB, "pias-10KB", "small_mean", "same", 1.15),
    Comparison("small mean against DCTCP", FROM_1KB, "dctcp", "small_mean"),
    Comparison("small p99 against DCTCP", FROM_1KB, "dctcp", "small_p99"),
    Comparison("small mean against TCP", FROM_1KB, "tcp", "small_mean"),
    Comparison("small p99 against TCP", FROM_1KB, "tcp", "small_p99"),
)


def plan(given: Given) -> Mapping[str, Planned]:
    document = read_document(SCENARIOS / "paper-mix.toml")
    workload = {"flows": given.flows}
    return one_group(
        given,
        [
            named(document, variant, seed, scheme=scheme, workload=workload)
            for variant, scheme in VARIANTS.items()
            for seed in given.seeds
        ],
    )


def claims(results: Results) -> list[Claim]:
    verdict = []
    for comparison in COMPARISONS:
        better, worse = comparison.better, comparison.worse
        ratios = results.runs.ratios(FIGURES[comparison.figure], better, worse)
        valid = results.runs.valid(better, worse)
        holds = sorted(ratios)[len(ratios) // 2] <= comparison.limit and valid
        explanation = comparison.explanation if valid else ""
        verdict.append(Claim(comparison.what, comparison.paper, spread(ratios), holds, explanation))
    return verdict


PANELS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("small_mean", "10 KB flows, mean", {"xscale": "log", "xlim": (1, 60), "xticks": [1, 2, 5, 10, 20, 50]}),
    (
        "small_p99",
        "10 KB flows, p99",
        {"xscale": "log", "xlim": (2, 500), "xticks": [2, 5, 10, 20, 50, 100, 200]},
    ),
    ("long_mean", "1 MB flows, mean", {"xlim": (0, 800)}),
)
"""Short flows' times span two decades, so their axes are logarithmic."""


def draw(results: Results) -> Figure:
    """Draw median and range over the seeds."""
    figure, [row] = grid(1, len(PANELS), width=4, height=4, sharey=True)
    for axes, (name, title, scale) in zip(row, PANELS, strict=True):
        for place, (variant, scheme) in enumerate(VARIANTS.items()):
            values = sorted(value / 1000 for value in results.runs.values(FIGURES[name], variant))
            colour = SCHEMES[scheme["name"]].colour
            axes.hlines(place, values[0], values[-1], color=colour, linewidth=3, alpha=0.5)
            axes.plot(values[len(values) // 2], place, "o", color=colour, markersize=8)
        axes.set(title=title, xlabel="FCT (ms)", **scale)
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_formatter(NullFormatter())
    row[0].set_yticks(range(len(VARIANTS)), list(VARIANTS))
    row[0].invert_yaxis()
    return figure


EXPERIMENT = Experiment(
    claim="Adaptation gives back what a mismatched threshold costs short flows, without harm to long ones.",
    figure="Gutiérrez et al., Figs. 6–8",
    minutes=12,
    runner=RunAfterRun(plan),
    on=(TESTBED,),
    seeds=(1, 2, 3),
    flows=800,
    quick={"seeds": (1,), "flows": 300},
    claims=claims,
    draw=draw,
)
