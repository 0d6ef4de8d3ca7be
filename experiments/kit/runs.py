# SPDX-License-Identifier: Apache-2.0
"""Finished runs: their bundles and figures by variant, load and seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from experiments.kit.experiment import Given
from experiments.kit.flows import Flows, read_flows
from experiments.kit.listed import ListedFlows, read_listed
from experiments.kit.paired import Changes, Difference, difference
from experiments.kit.points import Planned
from sluice.runs.bundle import read_ports
from sluice.sweep.points import Point
from sluice.sweep.table import Row, figures

ATTEMPTS = "attempts"
"""File in a bundle's folder with the number of attempts."""

Columns = Callable[[Path], Mapping[str, float]]
"""Reads further figures of a bundle: column → value."""

Series = list[tuple[float, int]]
"""(seconds of the run, threshold in bytes from then on)"""


def no_columns(bundle: Path) -> Mapping[str, float]:
    return {}


@dataclass(frozen=True)
class Run:
    """One finished run."""

    variant: str
    load: float | None
    seed: int
    bundle: Path
    row: Row
    """Column → figure: those of sluice.sweep.table, of `traffic`, and the experiment's own."""

    @property
    def valid(self) -> bool:
        return bool(self.row["valid"])

    def flows(self) -> Flows:
        """Read the flows from the file at every call, because many runs' flows would not fit into memory."""
        return read_flows(self.bundle)

    @cached_property
    def listed(self) -> ListedFlows:
        """Return the flows of a scenario that lists them, with their samples."""
        return read_listed(self.bundle)

    def thresholds(self, port: str) -> Series:
        """Return the port's first threshold at the start and at every change."""
        began_at = json.loads((self.bundle / "meta.json").read_text()).get("start_at", 0.0)
        rows = [row for row in read_ports(self.bundle, "thresholds") if row["port"] == port]
        return [(row["at"] - began_at, row["thresholds_bytes"][0]) for row in rows]


def read_run(point: Point, folder: Path, columns: Columns = no_columns) -> Run:
    bundle = folder / point.name
    summary, meta = (json.loads((bundle / name).read_text()) for name in ("summary.json", "meta.json"))
    row = {**figures(summary), **traffic(meta), "reasons": summary["valid"]["reasons"]}
    row |= {ATTEMPTS: attempts(bundle), **columns(bundle)}
    return Run(point.scheme, point.load, point.seed, bundle, row)


def traffic(meta: Mapping[str, Any]) -> Row:
    """Return the timeouts, and the share of dropped packets, which only the simulator counts."""
    sent = meta.get("packets_sent")
    return {
        "timeouts": meta.get("tcp", {}).get("retransmission_timeouts"),
        "dropped": meta["packets_dropped"] / sent if sent else None,
    }


def attempts(bundle: Path) -> int:
    """Return how many attempts the existing run took."""
    path = bundle / ATTEMPTS
    return int(path.read_text()) if path.exists() else 1


@dataclass(frozen=True)
class Runs:
    """The runs of one group, in the order of the plan."""

    runs: Sequence[Run]

    @property
    def variants(self) -> list[str]:
        return list(dict.fromkeys(run.variant for run in self.runs))

    @property
    def loads(self) -> list[float]:
        return sorted({run.load for run in self.runs if run.load is not None})

    def at(self, variant: str, load: float | None = None) -> list[Run]:
        """Return the runs in the order of the seeds; without a load, those at all loads."""
        found = [run for run in self.runs if run.variant == variant and load in (None, run.load)]
        return sorted(found, key=lambda run: run.seed)

    def raw(self, column: str, variant: str, load: float | None = None) -> list[Any]:
        """Return one value for each seed, in the order of the seeds; None if a run lacks the figure."""
        return [run.row[column] for run in self.at(variant, load)]

    def values(self, column: str, variant: str, load: float | None = None) -> list[float]:
        """Return the same values, with nan if a run lacks the figure."""
        return [float("nan") if value is None else value for value in self.raw(column, variant, load)]

    def median(self, column: str, variant: str, load: float | None = None) -> float:
        return median(self.values(column, variant, load))

    def ratios(self, column: str, variant: str, over: str, load: float | None = None) -> list[float]:
        """Return the ratios of two variants under the same traffic, seed by seed."""
        pairs = zip(self.values(column, variant, load), self.values(column, over, load), strict=True)
        return [a / b for a, b in pairs]

    def ratio_by_load(self, column: str, variant: str, over: str) -> dict[float, float]:
        """Return load → the median of the ratios over the seeds."""
        return {load: median(self.ratios(column, variant, over, load)) for load in self.loads}

    def change(self, column: str, variant: str, over: str, load: float | None = None) -> Difference:
        """Return the difference of two variants, with its confidence interval."""
        return difference(self.values(column, variant, load), self.values(column, over, load))

    def changes(self, column: str, variant: str, over: str) -> Changes:
        return Changes({load: self.change(column, variant, over, load) for load in self.loads})

    def valid(self, *variants: str) -> bool:
        """Whether all runs of these variants are valid; without a name, of all variants."""
        return all(run.valid for run in self.runs if not variants or run.variant in variants)

    @property
    def unfinished(self) -> int:
        """The number of unfinished flows."""
        return sum(run.row["unfinished"] for run in self.runs)

    def by_load(self, columns: Mapping[str, str]) -> dict[str, Any]:
        """Return figures for a verdict: at every variant and load, one value for each seed.
        `columns`: name → column."""
        return {
            variant: {
                f"{load:g}": {name: self.raw(column, variant, load) for name, column in columns.items()}
                for load in self.loads
            }
            for variant in self.variants
        }


@dataclass(frozen=True)
class Results:
    """All runs of an experiment, by group."""

    given: Given
    groups: Mapping[str, Runs]

    @property
    def runs(self) -> Runs:
        """The runs of the only group, or of the first one."""
        return next(iter(self.groups.values()))


def read_results(given: Given, planned: Mapping[str, Planned], columns: Columns = no_columns) -> Results:
    """Read the bundles of a plan. FileNotFoundError: a run is missing."""
    return Results(
        given,
        {
            name: Runs([read_run(point, group.folder, columns) for point in group.points])
            for name, group in planned.items()
        },
    )
