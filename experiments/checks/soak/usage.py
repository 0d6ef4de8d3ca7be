# SPDX-License-Identifier: Apache-2.0
"""What the processes use over time: memory, descriptors, and rows in the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from matplotlib.figure import Figure

from experiments.kit.draw import grid, legend_below

FEWEST = 12
"""Readings of a kind of process, below which nothing is said about its growth."""
GROWTH = 1.5
"""The last third of the readings may have this much more memory than the first, in the median."""


@dataclass(frozen=True)
class Reading:
    """At one moment: kB of resident memory and open descriptors by process, and flow records."""

    at_s: float
    memory_kb: Mapping[str, int]
    descriptors: Mapping[str, int]
    records: int


def read_process(pid: int) -> tuple[int, int] | None:
    """Return a process's resident memory in kB and its number of descriptors; None if it has ended."""
    process = Path(f"/proc/{pid}")
    try:
        status = (process / "status").read_text()
        descriptors = len(list((process / "fd").iterdir()))
    except (FileNotFoundError, ProcessLookupError):
        return None
    resident = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    return (int(resident[0]), descriptors) if resident else None


def read_all(at_s: float, pids: Mapping[str, int], records: int) -> Reading:
    """Read the processes, by name."""
    found = {name: used for name, pid in pids.items() if (used := read_process(pid)) is not None}
    return Reading(
        at_s, {n: m for n, (m, _) in found.items()}, {n: d for n, (_, d) in found.items()}, records
    )


def growth(values: Sequence[float]) -> float:
    """Return by which factor the last third exceeds the first, in the median."""
    third = len(values) // 3
    return median(values[-third:]) / max(1.0, median(values[:third]))


def growing(readings: Sequence[Reading]) -> list[str]:
    """Name the processes whose memory or descriptors grow by more than GROWTH."""
    found = []
    for what in ("memory_kb", "descriptors"):
        series: dict[str, list[float]] = {}
        for reading in readings:
            for name, value in getattr(reading, what).items():
                series.setdefault(name, []).append(value)
        for name, values in series.items():
            if len(values) >= FEWEST and growth(values) > GROWTH:
                found.append(f"{name}: {what} × {growth(values):.2f}")
    return found


def draw(readings: Sequence[Reading]) -> Figure:
    """Draw memory, descriptors and records over time."""
    figure, ((memory, descriptors, records),) = grid(1, 3, width=4.0)
    for name in sorted({name for reading in readings for name in reading.memory_kb}):
        seen = [reading for reading in readings if name in reading.memory_kb]
        hours = [reading.at_s / 3600 for reading in seen]
        memory.plot(hours, [r.memory_kb[name] / 1000 for r in seen], linewidth=1, label=name)
        descriptors.plot(hours, [r.descriptors[name] for r in seen], linewidth=1)
    records.plot([r.at_s / 3600 for r in readings], [r.records for r in readings], color="black", linewidth=1)
    for axes, title in (
        (memory, "resident memory (MB)"),
        (descriptors, "descriptors"),
        (records, "flow records"),
    ):
        axes.set_title(title, fontsize="medium")
        axes.set_xlabel("hours")
        axes.set_ylim(bottom=0)
    legend_below(figure, memory)
    return figure
