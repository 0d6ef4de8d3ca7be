# SPDX-License-Identifier: Apache-2.0
"""The demotion threshold over time from 1, 10 and 1000 KB (Gutiérrez et al., Fig. 5), at full rate on the simulator.

python -m experiments dyna_fig5 [--out DIR] [--seeds 1 2 3 4 5] [--flows N]
"""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from experiments.kit.pool import read_flows
from experiments.kit.verdict import Claim, conclude
from experiments.papers.adaptive_thresholds.common import (
    BOTTLENECK_PORT,
    LOADS,
    SHORT_BYTES,
    STARTS,
    Runs,
    arguments,
)
from experiments.papers.adaptive_thresholds.plot import panels, save
from policy.units import format_bytes
from sluice.runs.bundle import read_ports

SHOWN_LOAD = 0.8
COLOURS = {"1KB": "#4477aa", "10KB": "#228833", "1000KB": "#ee6677"}

Series = list[tuple[float, int]]
"""Seconds, and the threshold from then on, in bytes."""


def main(argv: list[str] | None = None) -> int:
    out, runs = arguments("dyna_fig5", __doc__, argv)
    series = {
        start: {load: [_series(runs, start, load, seed) for seed in runs.seeds] for load in LOADS}
        for start in STARTS
    }
    _plot(runs, series, out / "dyna_fig5.png")
    claims = [_claim(start, [one for load in LOADS for one in series[start][load]]) for start in STARTS]
    numbers = {start: {f"{load:g}": of for load, of in by_load.items()} for start, by_load in series.items()}
    return conclude(out, "dyna_fig5", claims, numbers)


def _series(runs: Runs, start: str, load: float, seed: int) -> Series:
    rows = read_ports(runs.bundle(f"dynamic-{start}", load, seed), "thresholds")
    return [(row["at"], row["thresholds_bytes"][0]) for row in rows if row["port"] == BOTTLENECK_PORT]


def settles(series: Series) -> float | None:
    """When the threshold is at the short flows' size for good; None when it never is."""
    if series[-1][1] != SHORT_BYTES:
        return None
    return next(
        at for i, (at, _) in enumerate(series) if all(threshold == SHORT_BYTES for _, threshold in series[i:])
    )


def _claim(start: str, series: list[Series]) -> Claim:
    settled = [settles(one) for one in series]
    times = sorted(at for at in settled if at is not None)
    reached = f"10 KB after {times[0]:.1f} … {times[-1]:.1f} s, and stays" if times else "never"
    return Claim(
        f"threshold from {start}, all loads",
        "converges to 10 KB",
        f"{reached}: {len(times)} of {len(settled)} runs",
        len(times) == len(settled),
    )


def _plot(runs: Runs, series: dict[str, dict[float, list[Series]]], path: Path) -> None:
    figure, [axes] = panels(1)
    end_s = float(read_flows(runs.bundle("dynamic-1KB", SHOWN_LOAD, runs.seeds[0])).started_s.max())
    for start in reversed(STARTS):
        for nth, points in enumerate(series[start][SHOWN_LOAD]):
            times = [at for at, _ in points] + [end_s]
            values = [threshold / 1000 for _, threshold in points]
            label = f"start {format_bytes(points[0][1])}" if nth == 0 else None
            axes.step(times, [*values, values[-1]], where="post", color=COLOURS[start], label=label)
    axes.set(
        yscale="log", xlim=(0, end_s), ylim=(0.7, 1500), xlabel="seconds", ylabel="demotion threshold (KB)"
    )
    axes.yaxis.set_major_locator(FixedLocator([1, 10, 100, 1000]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_title(
        f"Threshold at the receiver's port, load {SHOWN_LOAD:.0%}".replace("%", " %"), fontsize="medium"
    )
    axes.legend(frameon=False, fontsize="small")
    save(figure, path)


if __name__ == "__main__":
    sys.exit(main())
