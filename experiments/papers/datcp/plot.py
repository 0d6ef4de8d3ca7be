# SPDX-License-Identifier: Apache-2.0
"""Throughput over time, as the paper draws it: one line a flow, one colour a kind of flow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.papers.datcp.common import SMALL, Run, Setup, rates

BACKGROUND = "#8c8c8c"
DEADLINE = "#aa3377"
OTHER = "#4477aa"
STYLES = ("-", "--", ":", "-.")


def panels(count: int, height: float = 3.6) -> tuple[Figure, list[Axes]]:
    """A row of panels that share their axes."""
    figure, axes = plt.subplots(
        1,
        count,
        figsize=(max(6.5, 4.0 * count), height),
        layout="constrained",
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    return figure, list(axes[0])


def throughput(
    axes: Axes,
    run: Run,
    colours: Mapping[str, str],
    title: str,
    top: float = 0.6,
    setup: Setup = SMALL,
) -> None:
    """Every flow's throughput at intervals of 0.1 s; flows of one label share a colour and a legend entry.

    `top` is the end of the axis, as part of the link's rate.
    """
    seen: dict[str, int] = {}
    for index, flow in enumerate(run.flows):
        times, values = rates(run, index)
        nth = seen[flow.label] = seen.get(flow.label, -1) + 1
        axes.plot(
            times,
            values,
            color=colours[flow.label],
            linestyle=STYLES[nth % len(STYLES)],
            linewidth=1.2,
            label=flow.label if nth == 0 else None,
        )
        if flow.deadline_s is not None:
            axes.axvline(flow.start_s + flow.deadline_s, color=colours[flow.label], linewidth=0.6, alpha=0.5)
    axes.set(title=title, xlabel="seconds", ylim=(0, top * setup.link_mbps), xlim=(0, None))
    axes.grid(color="0.92")
    axes.set_axisbelow(True)


def finish(figure: Figure, axes: list[Axes], path: Path, ylabel: str = "throughput (Mb/s)") -> None:
    axes[0].set_ylabel(ylabel)
    axes[0].legend(frameon=False, fontsize="small")
    save(figure, path)


def save(figure: Figure, path: Path, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, **options)
    plt.close(figure)


__all__ = ["BACKGROUND", "DEADLINE", "OTHER", "finish", "panels", "save", "throughput"]
