# SPDX-License-Identifier: Apache-2.0
"""What a mismatched threshold costs, and what adaptation gives back (Gutiérrez et al., Figs. 6–8), on real TCP.

python -m experiments mismatch_fct [--out DIR] [--seeds 1 2 3] [--flows N]
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import NullFormatter, ScalarFormatter

from experiments.kit.verdict import Claim, conclude, spread
from policy.schemes import SCHEMES
from sluice.runs.bundle import is_complete
from sluice.runs.files import SCENARIOS, read_document, scenario_with
from sluice.runs.testbed_run import run_on_testbed
from sluice.terminal import end_in_order, progress_bar


@dataclass(frozen=True)
class Variant:
    """One line of the comparison: a scheme's table of the scenario."""

    name: str
    scheme: dict[str, Any]


_MLFQ = {"queues": 2, "mark_at": "20pkt"}
_ADAPTIVE = {"name": "mlfq-adaptive", "percentiles": [10], "window_ms": 2500, "interval_ms": 500, **_MLFQ}

VARIANTS = (
    Variant("adaptive-from-1KB", {**_ADAPTIVE, "thresholds": ["1KB"]}),
    Variant("adaptive-from-1000KB", {**_ADAPTIVE, "thresholds": ["1000KB"]}),
    Variant("pias-1KB", {"name": "pias", "thresholds": ["1KB"], **_MLFQ}),
    Variant("pias-10KB", {"name": "pias", "thresholds": ["10KB"], **_MLFQ}),
    Variant("pias-1000KB", {"name": "pias", "thresholds": ["1000KB"], **_MLFQ}),
    Variant("dctcp", {"name": "dctcp", "mark_at": "20pkt"}),
    Variant("tcp", {"name": "tcp"}),
)

Figures = dict[str, float]


@dataclass(frozen=True)
class Comparison:
    """A claim of the paper as a ratio: `better` over `worse`, expected below `limit`."""

    what: str
    better: str
    worse: str
    figure: str
    paper: str
    limit: float = 1.0
    explanation: str = ""


COMPARISONS = (
    Comparison("small mean, start 1 KB", "adaptive-from-1KB", "pias-1KB", "small_mean", "0.67 … 0.95"),
    Comparison("small p99, start 1 KB", "adaptive-from-1KB", "pias-1KB", "small_p99", "0.41 … 0.66"),
    Comparison("long mean, start 1 KB", "adaptive-from-1KB", "pias-1KB", "long_mean", "no increase", 1.1),
    Comparison(
        "small mean, start 1000 KB", "adaptive-from-1000KB", "pias-1000KB", "small_mean", "0.14 … 0.96"
    ),
    Comparison("small p99, start 1000 KB", "adaptive-from-1000KB", "pias-1000KB", "small_p99", "0.06 … 0.49"),
    Comparison(
        "long mean, start 1000 KB",
        "adaptive-from-1000KB",
        "pias-1000KB",
        "long_mean",
        "0.53 … 0.73",
        0.95,
        "short flows carry 3.8 % of the bytes, and the queue conserves work: their priority can neither cost nor spare "
        "the long flows more than that; with either threshold the long flows share one FIFO among themselves",
    ),
    Comparison(
        "small mean against the optimal threshold",
        "adaptive-from-1KB",
        "pias-10KB",
        "small_mean",
        "same",
        1.15,
    ),
    Comparison("small mean against DCTCP", "adaptive-from-1KB", "dctcp", "small_mean", "–"),
    Comparison("small p99 against DCTCP", "adaptive-from-1KB", "dctcp", "small_p99", "–"),
    Comparison("small mean against TCP", "adaptive-from-1KB", "tcp", "small_mean", "–"),
    Comparison("small p99 against TCP", "adaptive-from-1KB", "tcp", "small_p99", "–"),
)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/mismatch_fct"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument(
        "--flows", type=int, default=800, help="per run (default: %(default)s, about 35 s each)"
    )
    arguments = parser.parse_args(argv)
    end_in_order()
    document = read_document(SCENARIOS / "paper-mix.toml")
    figures = {
        variant.name: [_run(document, arguments, variant, seed) for seed in arguments.seeds]
        for variant in VARIANTS
    }
    _plot(figures, arguments.out / "mismatch_fct.png")
    claims = [_claim(comparison, figures) for comparison in COMPARISONS]
    return conclude(arguments.out, "mismatch_fct", claims, figures)


def _run(document: dict[str, Any], arguments: argparse.Namespace, variant: Variant, seed: int) -> Figures:
    """One run's figures in milliseconds; a finished run of an earlier, interrupted call is not run again."""
    name = f"{variant.name}-seed{seed}"
    out = arguments.out / name
    workload = {"flows": arguments.flows}
    scenario, resolved = scenario_with(
        document, name=name, seed=seed, scheme=variant.scheme, workload=workload
    )
    if not is_complete(out, resolved):
        with progress_bar(name) as report:
            run_on_testbed(scenario, resolved, out, report)
    summary = json.loads((out / "summary.json").read_text())
    if not summary["valid"]["ok"]:
        print(f"{name}: not valid: {'; '.join(summary['valid']['reasons'])}", file=sys.stderr)
    fct = summary["fct_us"]
    return {
        "small_mean": fct["small"]["mean"] / 1000,
        "small_p99": fct["small"]["p99"] / 1000,
        "long_mean": fct["medium"]["mean"] / 1000,
        "long_p99": fct["medium"]["p99"] / 1000,
        "retransmissions": summary["retransmissions"],
        "unfinished": summary["unfinished"],
        "valid": summary["valid"]["ok"],
    }


def _claim(comparison: Comparison, figures: dict[str, list[Figures]]) -> Claim:
    pairs = zip(figures[comparison.better], figures[comparison.worse], strict=True)
    ratios = [a[comparison.figure] / b[comparison.figure] for a, b in pairs]
    median = sorted(ratios)[len(ratios) // 2]
    valid = all(run["valid"] for name in (comparison.better, comparison.worse) for run in figures[name])
    holds = median <= comparison.limit and valid
    explanation = comparison.explanation if valid else ""
    return Claim(comparison.what, comparison.paper, spread(ratios), holds, explanation)


_PANELS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("small_mean", "10 KB flows, mean", {"xscale": "log", "xlim": (1, 60), "xticks": [1, 2, 5, 10, 20, 50]}),
    (
        "small_p99",
        "10 KB flows, p99",
        {"xscale": "log", "xlim": (2, 500), "xticks": [2, 5, 10, 20, 50, 100, 200]},
    ),
    ("long_mean", "1 MB flows, mean", {"xlim": (0, 800)}),
)


def _plot(figures: dict[str, list[Figures]], path: Path) -> None:
    """Median and range over the seeds; short flows' times span two decades, so their axes are logarithmic."""
    plot, axes = plt.subplots(1, len(_PANELS), figsize=(12, 4), layout="constrained", sharey=True)
    for panel, (figure, title, scale) in zip(axes, _PANELS, strict=True):
        for row, variant in enumerate(VARIANTS):
            low, *_, high = values = sorted(run[figure] for run in figures[variant.name])
            colour = SCHEMES[variant.scheme["name"]].colour
            panel.hlines(row, low, high, color=colour, linewidth=3, alpha=0.5)
            panel.plot(values[len(values) // 2], row, "o", color=colour, markersize=8)
        panel.set(title=title, xlabel="FCT (ms)", **scale)
        panel.xaxis.set_major_formatter(ScalarFormatter())
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.set_yticks(range(len(VARIANTS)), [variant.name for variant in VARIANTS])
        panel.grid(axis="x", which="both", color="0.92")
        panel.set_axisbelow(True)
    axes[0].invert_yaxis()
    plot.savefig(path, dpi=150)
    plt.close(plot)


if __name__ == "__main__":
    sys.exit(main())
