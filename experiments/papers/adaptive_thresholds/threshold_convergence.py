# SPDX-License-Identifier: Apache-2.0
"""Convergence of the demotion threshold (Gutiérrez et al., Fig. 5), and whether it follows a shift of the traffic.

python -m experiments threshold_convergence [--out DIR] [--flows N]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from experiments.kit.verdict import Claim, conclude
from policy.tags import EDGES_BYTES, attained_tag
from policy.units import format_bytes
from sluice.runs.bundle import read_flows, read_ports
from sluice.runs.files import SCENARIOS, read_document, scenario_with
from sluice.runs.testbed_run import run_on_testbed
from sluice.terminal import end_in_order, progress_bar

STARTS = ("1KB", "10KB", "1000KB")
SHORT_EDGE_BYTES = 10_000
SHIFTED_SHORT_BYTES = 20_000
SHIFTED_EDGE_BYTES = EDGES_BYTES[attained_tag(SHIFTED_SHORT_BYTES) - 1]
"""The edge at or above 20 KB: 23.7 KB."""
BOTTLENECK_PORT = "s1:1"
"""The switch port of h1, the receiver of everything."""

SHIFTED_MIX = [
    {"bytes": "20KB", "share": 0.8, "from": ["h3"]},
    {"bytes": "1000KB", "share": 0.2, "from": ["h2", "h4"]},
]

Series = list[tuple[float, int]]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/threshold_convergence"))
    parser.add_argument(
        "--flows", type=int, default=1200, help="per run (default: %(default)s, about 25 s each)"
    )
    arguments = parser.parse_args(argv)
    end_in_order()
    document = read_document(SCENARIOS / "paper-mix.toml")
    series = {start: _run(document, arguments, f"from-{start}", start) for start in STARTS}
    shift = {"at": 0.5, "mix": SHIFTED_MIX}
    series["shift"] = _run(document, arguments, "shift", "1000KB", workload={"shift": shift})
    _plot(series, arguments.out / "threshold_convergence.png")
    claims = [_converges(start, series[start]) for start in STARTS] + [_follows(series["shift"])]
    return conclude(arguments.out, "threshold_convergence", claims, series)


def _run(
    document: dict[str, Any],
    arguments: argparse.Namespace,
    name: str,
    start: str,
    workload: dict[str, Any] | None = None,
) -> Series:
    """One run; returns (seconds since the traffic began, threshold in bytes) at the receiver's port."""
    scheme = {**document["scheme"], "thresholds": [start]}
    tables = {"scheme": scheme, "workload": {"flows": arguments.flows, **(workload or {})}}
    scenario, resolved = scenario_with(document, name=name, **tables)
    out = arguments.out / name
    with progress_bar(name) as report:
        summary = run_on_testbed(scenario, resolved, out, report)
    if not summary["valid"]["ok"]:
        print(f"{name}: not valid: {'; '.join(summary['valid']['reasons'])}", file=sys.stderr)
    return threshold_series(out)


def threshold_series(bundle: Path) -> Series:
    """The bottleneck port's threshold at every change and at the end, by seconds from the start of the traffic."""
    start_at = json.loads((bundle / "meta.json").read_text())["start_at"]
    rows = [row for row in read_ports(bundle, "thresholds") if row["port"] == BOTTLENECK_PORT]
    changes = [(row["at"] - start_at, row["thresholds_bytes"][0]) for row in rows]
    end = max(flow["started_at"] for flow in read_flows(bundle)) - start_at
    return [*changes, (end, changes[-1][1])]


def _converges(start: str, series: Series) -> Claim:
    reached = [at for at, threshold in series if threshold == SHORT_EDGE_BYTES]
    settled = bool(series) and series[-1][1] == SHORT_EDGE_BYTES
    first = next((i for i, (_, threshold) in enumerate(series) if threshold == SHORT_EDGE_BYTES), len(series))
    stays = settled and all(threshold == SHORT_EDGE_BYTES for _, threshold in series[first:])
    measured = (
        f"10 KB after {max(reached[0], 0):.1f} s, {'stays' if stays else 'leaves it'}" if reached else "never"
    )
    return Claim(f"from {start} to the 10 KB edge, and stays", "converges to 10 KB", measured, stays)


def _follows(series: Series) -> Claim:
    at_edge = [at for at, threshold in series if threshold == SHIFTED_EDGE_BYTES]
    holds = bool(series) and series[-1][1] == SHIFTED_EDGE_BYTES
    measured = (
        f"{format_bytes(series[-1][1])} at the end, reached after {at_edge[0]:.1f} s" if at_edge else "never"
    )
    return Claim(
        "short flows shift to 20 KB half-way: the threshold follows", "(section 2.2)", measured, holds
    )


def _plot(series: dict[str, Series], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    for name, points in series.items():
        if points:
            times = [max(at, 0.0) for at, _ in points]
            label = "shift to 20 KB half-way" if name == "shift" else f"start {name}"
            axes.step(
                [*times, times[-1] + 1], [b for _, b in points] + [points[-1][1]], where="post", label=label
            )
    axes.axhline(SHORT_EDGE_BYTES, color="0.8", zorder=0)
    axes.set(yscale="log", xlabel="seconds since the traffic began", ylabel="demotion threshold (bytes)")
    axes.set_title("Threshold at the receiver's port: 80 % 10 KB, 20 % 1000 KB, load 0.8")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
