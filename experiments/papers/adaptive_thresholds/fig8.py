# SPDX-License-Identifier: Apache-2.0
"""Long flows, static against dynamic thresholds from 1000 KB (Gutiérrez et al., Fig. 8), at full rate on the simulator.

Twice: with long flows of exactly the threshold, and with a threshold that also counts the packets' headers,
so that the last 28 KB of a long flow lie above it. They make all the difference (docs/REPRODUCING.md).

python -m experiments dyna_fig8 [--out DIR] [--seeds 1 2 3 4 5] [--flows N]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from experiments.kit.paired import difference
from experiments.kit.pool import run_all
from experiments.kit.verdict import Claim, conclude
from experiments.papers.adaptive_thresholds.common import (
    DYNAMIC_COLOUR,
    LOADS,
    STATIC_COLOUR,
    Runs,
    arguments,
    cause_points,
)
from experiments.papers.adaptive_thresholds.plot import BROAD, NARROW, line, panels, save
from experiments.papers.adaptive_thresholds.short_flows import Changes, numbers

COUNTED = "headers-counted-"
SETS = {"": "1000 KB, payload counted", COUNTED: "1000 KB, headers counted"}
"""Prefix of the variants, and what it means."""
FIGURES = ("long_mean", "long_p99")
PAPER = {"long_mean": "−27.1 … −46.7 %", "long_p99": "−24 … −45.8 %"}
NAMES = {"long_mean": "mean", "long_p99": "p99"}
NO_INCREASE = 0.02
RULES = (("static", STATIC_COLOUR, BROAD), ("dynamic", DYNAMIC_COLOUR, NARROW))
"""With colour and width of line: the two lie on each other where headers do not count."""

EXPLANATION = (
    "a flow of exactly 1000 KB never leaves the top queue, and with either threshold all long flows share"
    " one FIFO; the short ones carry 3.8 % of the bytes. Where headers count, a long flow's last packets "
    "fall below all the others' first 1000 KB: then they wait, and the paper's gain appears"
)


def main(argv: list[str] | None = None) -> int:
    out, runs = arguments("dyna_fig8", __doc__, argv)
    run_all(
        cause_points(runs, ["headers-counted"], ["static-1000KB", "dynamic-1000KB"], LOADS),
        runs.folder,
        runs.jobs,
    )
    _plot(runs, out / "dyna_fig8.png")
    claims = [_lower(runs, prefix, figure) for prefix in SETS for figure in FIGURES]
    claims += [_no_increase(runs, start, figure) for start in ("1KB", "10KB") for figure in FIGURES]
    return conclude(out, "dyna_fig8", claims, _numbers(runs))


def _changes(runs: Runs, prefix: str, figure: str) -> Changes:
    return Changes(
        {
            load: difference(
                *[runs.figures(f"{prefix}{rule}-1000KB", load)[figure] for rule in ("dynamic", "static")]
            )
            for load in LOADS
        }
    )


def _lower(runs: Runs, prefix: str, figure: str) -> Claim:
    changes = _changes(runs, prefix, figure)
    what = f"start {SETS[prefix]}: {NAMES[figure]} of long flows"
    at_least = all(change.high < -0.02 for load, change in changes.by_load.items() if load >= 0.8)
    return Claim(what, PAPER[figure], str(changes), at_least, "" if prefix else EXPLANATION)


def _no_increase(runs: Runs, start: str, figure: str) -> Claim:
    changes = Changes.of(runs, figure, start)
    holds = all(change.mean <= NO_INCREASE for change in changes.by_load.values())
    return Claim(f"start {start}: {NAMES[figure]} of long flows", "no increase", str(changes), holds)


def _numbers(runs: Runs) -> dict[str, Any]:
    counted = {
        figure: {"1000KB, headers counted": _changes(runs, COUNTED, figure).to_document()}
        for figure in FIGURES
    }
    return {**numbers(runs, FIGURES), "headers counted": counted}


def _plot(runs: Runs, path: Path) -> None:
    drawn, axes = panels(len(FIGURES), share_y=False)
    for panel, figure in zip(axes, FIGURES, strict=True):
        for prefix, style in zip(SETS, ("-", "--"), strict=True):
            for rule, colour, width in RULES:
                values = [
                    [value / 1000 for value in runs.figures(f"{prefix}{rule}-1000KB", load)[figure]]
                    for load in LOADS
                ]
                label = f"{rule}{', headers counted' if prefix else ''}"
                line(panel, LOADS, values, label, colour, style, width)
        panel.set_title(f"1000 KB flows, {NAMES[figure]}", fontsize="medium")
        panel.set_ylim(bottom=0)
        panel.set_xticks([100 * load for load in LOADS])
    axes[0].set_ylabel("FCT (ms)")
    axes[0].legend(frameon=False, fontsize="small")
    save(drawn, path)


if __name__ == "__main__":
    sys.exit(main())
