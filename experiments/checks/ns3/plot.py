# SPDX-License-Identifier: Apache-2.0
"""Completion times of both simulators by size class, and the backlog of a bottleneck, as distributions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from policy.columns import size_classes
from policy.records import SIZE_CLASSES

OURS, NS3 = "#0b6e99", "#d9730d"


@dataclass(frozen=True)
class Times:
    """Flows of a case, all seeds."""

    sizes_bytes: npt.NDArray[np.int64]
    ours_us: npt.NDArray[np.float64]
    ns3_us: npt.NDArray[np.float64]


def plot_times(cases: Mapping[str, Times], path: Path) -> None:
    """A row for each case, a column for each class."""
    figure, rows = plt.subplots(
        len(cases), len(SIZE_CLASSES), figsize=(12, 2.6 * len(cases)), layout="constrained", squeeze=False
    )
    for panels, (name, times) in zip(rows, cases.items(), strict=True):
        of_class = size_classes(times.sizes_bytes)
        for i, panel in enumerate(panels):
            chosen = of_class == i
            _draw(panel, times.ns3_us[chosen], NS3, "ns-3", 3.0)
            _draw(panel, times.ours_us[chosen], OURS, "Sluice", 1.2)
            panel.set(title=f"{name}, {SIZE_CLASSES[i]} ({chosen.sum()} flows)", xscale="log", ylim=(0, 1))
            panel.grid(color="0.92")
            wide = chosen.any() and np.ptp(np.log10(times.ours_us[chosen])) > 2
            panel.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
            panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            panel.xaxis.set_minor_formatter(NullFormatter())
    for panel in rows[-1]:
        panel.set_xlabel("FCT (ms)")
    rows[0][0].legend(loc="upper left")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw(panel: Axes, values: npt.NDArray[np.float64], colour: str, label: str, width: float) -> None:
    done = np.sort(values[~np.isnan(values)]) / 1000
    share = np.arange(1, len(done) + 1) / len(done) if len(done) else done
    panel.plot(done, share, color=colour, linewidth=width, label=label, alpha=0.85)
