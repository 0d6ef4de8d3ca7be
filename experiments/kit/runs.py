# SPDX-License-Identifier: Apache-2.0
"""Finished runs: their bundles and figures by variant, load and seed, differences of variants, claims and a table."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy.stats import t

from experiments.kit.experiment import Claim, Given, markdown_table, over_loads
from experiments.kit.flows import Column, Flows, ListedFlows, read_flow_columns, read_listed
from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.policy.schemes import SCHEMES
from sluice.report.tables import Scale, estimate
from sluice.runs.bundle import read_ports
from sluice.sweep.points import Point
from sluice.sweep.table import COLUMNS, MEASURES, Row, figures

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Difference:
    """The relative difference of one scheme to another, with its 95 % interval. -0.1 means 10 % less."""

    mean: float
    low: float
    high: float
    seeds: int
    single: float
    """Standard deviation of single seeds: how far one run may be from the true value."""

    @property
    def lower(self) -> bool:
        """Whether the whole interval is below zero: lower, and not by chance."""
        return self.high < 0

    def __str__(self) -> str:
        interval = f"{self.low:+.1%} … {self.high:+.1%}" if self.seeds > 1 else "one seed"
        return signed(f"{self.mean:+.1%} ({interval})")

    def to_document(self) -> dict[str, float | int]:
        return dict(vars(self))


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """Return the mean of ours over the mean of theirs, less 1. Both are in the order of the seeds.

    The interval is that of a ratio estimator (Cochran, Sampling Techniques, 6.4). A mean of ratios
    would depend most on the seeds with small values of theirs. A seed without a value on either
    side is left out.
    """
    pairs = np.asarray([ours, theirs], float)
    x, y = pairs[:, ~np.isnan(pairs).any(axis=0)]
    seeds, ratio = len(x), float(x.sum() / y.sum())
    if seeds < 2:
        return Difference(ratio - 1, -np.inf, np.inf, seeds, np.nan)
    half = half_interval(x - ratio * y) / float(y.mean())
    return Difference(ratio - 1, ratio - 1 - half, ratio - 1 + half, seeds, float((x / y).std(ddof=1)))


def half_interval(values: Sequence[float] | Column) -> float:
    """Return half the width of the 95 % interval of the mean of two or more values."""
    return float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))


def with_interval(values: Sequence[float]) -> str:
    """Return the mean of the seeds and half its 95 % interval, for example 1.41 ± 0.03; of one seed the value alone."""
    return f"{np.mean(values):.2f}" + (f" ± {half_interval(values):.2f}" if len(values) > 1 else "")


@dataclass(frozen=True)
class Changes:
    """The differences of one scheme to another, at every load."""

    by_load: Mapping[float, Difference]

    @property
    def lower(self) -> bool:
        """Whether the figure is lower at every load, and not by chance."""
        return all(change.lower for change in self.by_load.values())

    @property
    def grows(self) -> bool:
        """Whether the gain at the highest load exceeds the gain at the lowest, not by chance."""
        changes = list(self.by_load.values())
        return changes[-1].high < changes[0].low

    def within(self, limit: float) -> bool:
        return all(abs(change.mean) <= limit for change in self.by_load.values())

    def __str__(self) -> str:
        """Return the differences at the first and at the last load."""
        ends = sorted({0, len(self.by_load) - 1})
        shown = [list(self.by_load.items())[place] for place in ends]
        return signed(" … ".join(f"{change.mean:+.1%} at {load:.0%}" for load, change in shown))


def signed(text: str) -> str:
    """Return percentages in print form: a true minus, a space before the percent sign."""
    return text.replace("-", "−").replace("%", " %")


ATTEMPTS_FILE = "attempts"
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
        return read_flow_columns(self.bundle)

    @cached_property
    def listed(self) -> ListedFlows:
        """Return the flows of a scenario that lists them, with their samples."""
        return read_listed(self.bundle)

    def thresholds(self, port: str) -> Series:
        """Return the port's first threshold at the start and at every change."""
        began_at = json.loads((self.bundle / "meta.json").read_text())["start_at"]
        rows = [row for row in read_ports(self.bundle, "thresholds") if row["port"] == port]
        return [(row["at"] - began_at, row["thresholds_bytes"][0]) for row in rows]


def read_run(point: Point, folder: Path, columns: Columns = no_columns) -> Run:
    bundle = folder / point.name
    summary, meta = (json.loads((bundle / name).read_text()) for name in ("summary.json", "meta.json"))
    row = {**figures(summary), **traffic(meta), "reasons": summary["valid"]["reasons"]}
    row |= {ATTEMPTS_FILE: attempts(bundle), **columns(bundle)}
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
    path = bundle / ATTEMPTS_FILE
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
        runs = [run for run in self.runs if run.variant == variant and load in (None, run.load)]
        return sorted(runs, key=lambda run: run.seed)

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

    def curve(self, column: str, variant: str, factor: float = 1) -> list[list[float]]:
        """Return at every load the values of the seeds, times a factor."""
        return [[factor * value for value in self.values(column, variant, load)] for load in self.loads]

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


@dataclass(frozen=True)
class Results:
    """All runs of an experiment, by group."""

    given: Given
    groups: Mapping[str, Runs]

    @property
    def runs(self) -> Runs:
        """The runs of the only group, or of the first one."""
        return next(iter(self.groups.values()))


def numbers_of(results: Results) -> dict[str, Any]:
    """Return a verdict's numbers: by group and variant load, seed and figures of the runs, each as a list.

    The only group of an experiment needs no name. Of distributions, means and 99th percentiles count.
    """
    by_group = {
        group: {variant: _columns_of(runs.at(variant)) for variant in runs.variants}
        for group, runs in results.groups.items()
    }
    return by_group if len(by_group) > 1 else next(iter(by_group.values()))


def _columns_of(runs: Sequence[Run]) -> dict[str, list[Any]]:
    columns = {
        name: [run.row[name] for run in runs]
        for name in runs[0].row
        if not name.startswith(MEASURES) or name.endswith(("_mean", "_p99"))
    }
    return {"load": [run.load for run in runs], "seed": [run.seed for run in runs], **columns}


ByLoad = Mapping[float, float]


def at_most(
    what: str, paper: str, ratios: ByLoad, limit: float, *, once: float = inf, explanation: str = ""
) -> Claim:
    """Claim that no ratio exceeds `limit`, and that at least one is at most `once`."""
    holds = max(ratios.values()) <= limit and min(ratios.values()) <= once
    return Claim(what, paper, over_loads(ratios), holds, explanation)


def median_at_most(what: str, values: Sequence[float], limit: float, explanation: str = "") -> Claim:
    """Claim that the median over the seeds is at most `limit`."""
    value = median(values)
    return Claim(what, f"≤ {limit:g}", f"{value:.3f}", value <= limit, explanation)


def below_one(what: str, ratios: ByLoad, explanation: str = "") -> Claim:
    """Claim that every ratio is below 1."""
    return Claim(what, "lower", over_loads(ratios), max(ratios.values()) < 1, explanation)


def lower(what: str, paper: str, change: Difference | Changes, explanation: str = "") -> Claim:
    """Claim that the figure is lower than the other's, not by chance; with loads, at every load."""
    return Claim(what, paper, str(change), change.lower, explanation)


def within(what: str, paper: str, change: Difference, limit: float, explanation: str = "") -> Claim:
    """Claim that the mean differs by at most `limit`, a relative difference, either way."""
    return Claim(what, paper, str(change), abs(change.mean) <= limit, explanation)


def noted(what: str, measured: str) -> Claim:
    """Return a figure that is worth knowing, without a value of the paper."""
    return Claim(what, "–", measured, True)


def all_finished(runs: Runs, what: str = "unfinished flows") -> Claim:
    return Claim(what, "0", str(runs.unfinished), runs.unfinished == 0)


def all_valid(runs: Runs) -> list[Claim]:
    """Claim that all runs are valid and all flows finished: an invalid run proves nothing."""
    valid = sum(run.valid for run in runs.runs)
    total = len(runs.runs)
    return [Claim("runs that are valid", "all", f"{valid} of {total}", valid == total), all_finished(runs)]


BOTH_FABRICS = (TESTBED, SIMULATOR)
SCHEME_COLUMNS = (*COLUMNS, ("retransmissions", "retransmissions", 1.0))


def schemes_of_testbed() -> tuple[str, ...]:
    """Return the schemes that the testbed's switches can carry out."""
    return tuple(name for name, scheme in SCHEMES.items() if not scheme.needs)


def scheme_table(results: Results) -> str:
    """Return a Markdown table, one line for each scheme: means over the seeds ± standard
    deviation, FCT in ms."""
    rows = []
    for variant in results.runs.variants:
        runs = results.runs.at(variant)
        cells = [
            Scale("", factor).show(estimate(run.row[column] for run in runs))
            for _, column, factor in SCHEME_COLUMNS
        ]
        rows.append((variant, *cells, f"{sum(run.valid for run in runs)}/{len(runs)}"))
    headings = ("scheme", *(heading for heading, *_ in SCHEME_COLUMNS), "valid")
    return markdown_table(headings, rows) + "\n"
