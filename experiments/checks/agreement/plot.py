# SPDX-License-Identifier: Apache-2.0
"""Distributions of FCT on both fabrics: one panel a variant and class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from experiments.checks.agreement.compare import CLASSES, Pair
from experiments.papers.adaptive_thresholds.mismatch_fct import VARIANTS
from policy.schemes import SCHEMES

TESTBED = "0.2"


def plot(pairs: Mapping[str, Sequence[Pair]], path: Path) -> None:
    """All seeds together: the testbed dark, the simulator in the scheme's colour."""
    scheme_of = {variant.name: variant.scheme["name"] for variant in VARIANTS}
    figure, grid = plt.subplots(
        len(CLASSES), len(pairs), figsize=(2.6 * len(pairs), 5), layout="constrained", squeeze=False
    )
    for column, (variant, runs) in enumerate(pairs.items()):
        for row, (size_class, title) in enumerate(CLASSES.items()):
            panel = grid[row][column]
            colour = SCHEMES[scheme_of[variant]].colour
            for side, line in (("testbed", TESTBED), ("simulator", colour)):
                values = np.concatenate([getattr(run, side).of(size_class) for run in runs])
                _cdf(panel, values, line, side)
            panel.set_title(f"{variant}\n{title}" if row == 0 else title, fontsize="small")
            panel.legend(frameon=False, fontsize="x-small", loc="lower right")
    for panel in grid[-1]:
        panel.set_xlabel("FCT (ms)", fontsize="small")
    for row_of in grid:
        row_of[0].set_ylabel("flows")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _cdf(axes: Axes, values: npt.NDArray[np.float64], colour: str, label: str) -> None:
    ordered = np.sort(values[~np.isnan(values)])
    shares = np.arange(1, len(ordered) + 1) / len(values)
    axes.plot(ordered, shares, color=colour, label=label, linewidth=1.4)
    axes.set(xscale="log", ylim=(0, 1))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
