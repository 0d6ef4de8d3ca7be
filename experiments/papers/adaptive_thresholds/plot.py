# SPDX-License-Identifier: Apache-2.0
"""Lines over the load: mean over the seeds, and their range as a band."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

OPTIMUM_COLOUR = "0.75"
BROAD, NARROW = 4.0, 1.5
"""A broad line can be seen beneath a narrow one."""


def panels(count: int, *, share_y: bool = True) -> tuple[Figure, list[Axes]]:
    figure, axes = plt.subplots(
        1, count, figsize=(4.4 * count, 3.8), layout="constrained", sharey=share_y, squeeze=False
    )
    for panel in axes[0]:
        panel.grid(color="0.92")
        panel.set_axisbelow(True)
        panel.set_xlabel("load (%)")
    return figure, list(axes[0])


def line(
    axes: Axes,
    loads: Sequence[float],
    values: Sequence[Sequence[float]],
    label: str,
    colour: str,
    style: str = "-",
    width: float = NARROW,
) -> None:
    """`values`: for each load those of the seeds."""
    percent = [100 * load for load in loads]
    axes.fill_between(percent, *_range(values), color=colour, alpha=0.2, linewidth=0)
    means = [float(np.mean(runs)) for runs in values]
    axes.plot(
        percent, means, style, color=colour, linewidth=width, marker="o", markersize=3 + width, label=label
    )


def _range(values: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
    return [min(runs) for runs in values], [max(runs) for runs in values]


def save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
