# SPDX-License-Identifier: Apache-2.0
"""The report's numbers, and its tables as rows of text.

Numbers are means over seeds with their deviation, ratios to a baseline, and curves. They are written with three
significant digits, and with one unit for all values that are compared.
"""

import csv
import io
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from sluice.policy.schema.fields import POLICY_FIELDS, field_text
from sluice.policy.schemes import SCHEMES
from sluice.policy.wire.records import MEDIUM_LIMIT_BYTES, SMALL_LIMIT_BYTES
from sluice.report.runs import Flows, Run, Variant, differing, shown

BINS_PER_DECADE = 3
MIN_FOR_MEAN, MIN_FOR_P99 = 10, 100
"""Flows that a size bin needs for its mean and for its 99th percentile."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """The mean of a figure over seeds."""

    mean: float
    deviation: float | None = None
    """Standard deviation over the seeds; None with a single seed."""


def estimate(values: Iterable[float | None]) -> Estimate | None:
    """Return the mean of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Estimate(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None)


def of_class(runs: Sequence[Run], measure: str, group: str, name: str) -> Estimate | None:
    """Return a figure of the summaries, for example ("fct_us", "small", "p99")."""
    return estimate(run.summary[measure][group][name] for run in runs)


def miss_ratio(runs: Sequence[Run]) -> Estimate | None:
    return estimate(run.summary["deadlines"]["miss_ratio"] for run in runs)


def ratio(
    runs: Sequence[Run], to: Sequence[Run], figure: Callable[[Sequence[Run]], Estimate | None]
) -> Estimate | None:
    """Return the ratio of a figure to the baseline's.

    If both have the same seeds, it is the mean of each seed's ratio, otherwise the ratio of the
    means.
    """
    seeds = {run.seed: run for run in to}
    pairs = [(figure([run]), figure([seeds[run.seed]])) for run in runs if run.seed in seeds]
    if len(pairs) == len(runs) == len(to):
        return estimate(a.mean / b.mean if a and b and b.mean else None for a, b in pairs)
    above, below = figure(runs), figure(to)
    return Estimate(above.mean / below.mean) if above and below and below.mean else None


def pooled(runs: Sequence[Run]) -> Flows:
    """Return the finished flows of all these runs together."""
    parts = [run.flows() for run in runs]
    return Flows(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("size_bytes", "size_class", "fct_us", "slowdown")
        )
    )


@dataclass(frozen=True)
class SizeBins:
    """Slowdown by flow size. A figure with too few flows in its bin is nan."""

    size_bytes: Floats
    """Geometric mean of the sizes in each bin."""
    mean: Floats
    p99: Floats


def slowdown_by_size(flows: Flows) -> SizeBins:
    """Return bins of a third of a decade, without empty ones."""
    finished = ~np.isnan(flows.slowdown)
    logs, slowdown = np.log10(flows.size_bytes[finished]), flows.slowdown[finished]
    numbers = np.floor(logs * BINS_PER_DECADE + 1e-9).astype(int)
    rows = []
    for number in np.unique(numbers):
        inside = numbers == number
        values, n = slowdown[inside], int(inside.sum())
        mean = values.mean() if n >= MIN_FOR_MEAN else np.nan
        p99 = np.percentile(values, 99) if n >= MIN_FOR_P99 else np.nan
        rows.append((10 ** logs[inside].mean(), mean, p99))
    return SizeBins(*np.array(rows, float).reshape(-1, 3).T)


def loads_of(variants: Iterable[Variant]) -> list[float | None]:
    """Return every load of any run, rising. None, for scenarios without a load, comes first."""
    loads = {run.load for variant in variants for run in variant.runs}
    return sorted(loads, key=lambda load: -1.0 if load is None else load)


# ── As text ──────────────────────────────────────────────────────────────────────────────────────────


NOTHING = "–"
THIN = "\N{NARROW NO-BREAK SPACE}"
_TIMES_US = (("s", 1e6), ("ms", 1e3), ("µs", 1.0))
_SIZES = (("GB", 1e9), ("MB", 1e6), ("KB", 1e3), ("B", 1.0))


@dataclass(frozen=True)
class Scale:
    """A unit, and the factor that converts values to it."""

    unit: str
    factor: float

    def show(self, figure: Estimate | None) -> str:
        """Return the mean with three digits, and the deviation to the same decimal."""
        if figure is None:
            return NOTHING
        mean = figure.mean * self.factor
        decimals = 2 if mean == 0 else min(3, max(0, 2 - math.floor(math.log10(abs(mean)) + 1e-9)))
        text = _grouped(mean, decimals)
        return (
            text
            if figure.deviation is None
            else f"{text} ± {_grouped(figure.deviation * self.factor, decimals)}"
        )


PLAIN = Scale("", 1.0)
"""For slowdowns and ratios."""
PERCENT = Scale("%", 100.0)


def time_scale(values_us: Iterable[float]) -> Scale:
    """Return the unit for times in microseconds: by their geometric mean, but fine enough for the smallest."""
    positive_us = [value for value in values_us if value > 0] or [1.0]
    middle, least = statistics.geometric_mean(positive_us), min(positive_us)
    for unit, size_us in _TIMES_US:
        if middle >= size_us / 2 and least >= size_us / 10:
            return Scale(unit, 1 / size_us)
    return Scale("µs", 1.0)


def percent(share: Estimate | None) -> str:
    text = PERCENT.show(share)
    return text if share is None else f"{text} %"


def time_text(time_us: float) -> str:
    """Return a time as 20 µs or 1.5 ms."""
    return _with_unit(time_us, _TIMES_US)


def size_text(size_bytes: float) -> str:
    """Return a size as 100 KB or 1.5 MB."""
    return _with_unit(size_bytes, _SIZES)


def factor_text(factor: float) -> str:
    """Return a factor as 0.5, 2 or 10 000."""
    return _grouped(factor, 0) if factor >= 1000 else f"{factor:g}"


def count(number: int) -> str:
    return _grouped(number, 0)


def _with_unit(value: float, units: Sequence[tuple[str, float]]) -> str:
    unit, size = next((pair for pair in units if value >= pair[1]), units[-1])
    return f"{value / size:g}{THIN}{unit}"


def _grouped(value: float, decimals: int) -> str:
    return f"{value:,.{decimals}f}".replace(",", THIN)


DIGITS = 6
"""Significant digits of the data."""


def csv_text(headings: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(headings)
    for row in rows:
        writer.writerow(f"{value:.{DIGITS}g}" if isinstance(value, float) else value for value in row)
    return file.getvalue()


def csv_address(text: str) -> str:
    """Return a CSV as an address that the page contains."""
    return f"data:text/csv;charset=utf-8,{quote(text)}"


FCT_COLUMNS = ("mean", "p50", "p95", "p99")


@dataclass(frozen=True)
class Row:
    """The row of one variant."""

    variant: Variant
    cells: tuple[str, ...]
    best: bool = False
    """Whether its mean is the lowest of the section."""


@dataclass(frozen=True)
class Section:
    """Rows that share a heading and a unit."""

    heading: str
    unit: str
    rows: tuple[Row, ...]


def class_limits(group: str, scale: float) -> str:
    """Return the class's limits of size as text, scaled as in the workload."""
    small, medium = (size_text(round(limit * scale)) for limit in (SMALL_LIMIT_BYTES, MEDIUM_LIMIT_BYTES))
    return {
        "small": f"up to {small}",
        "medium": f"{small} to {medium}",
        "large": f"over {medium}",
        "all": "",
    }[group]


def fct_sections(
    variants: Sequence[Variant], baseline: Variant, load: float | None, classes: Sequence[str]
) -> list[Section]:
    """Return FCT and slowdown of every variant at a load, by class."""
    return [_fct_section(variants, baseline, load, group) for group in (*classes, "all")]


def _fct_section(variants: Sequence[Variant], baseline: Variant, load: float | None, group: str) -> Section:
    runs = {variant: variant.at(load) for variant in variants}
    times = {v: [of_class(runs[v], "fct_us", group, name) for name in FCT_COLUMNS] for v in variants}
    slow = {v: [of_class(runs[v], "slowdown", group, name) for name in ("mean", "p99")] for v in variants}
    scale = time_scale([figure.mean for row in times.values() for figure in row if figure])
    means = [row[0].mean for row in times.values() if row[0]]
    rows = []
    for variant in variants:
        flows = sum(run.summary["fct_us"][group]["n"] for run in runs[variant])
        cells = [count(flows), *map(scale.show, times[variant]), *map(PLAIN.show, slow[variant])]
        against = ratio(
            runs[variant], baseline.at(load), lambda some: of_class(some, "fct_us", group, "mean")
        )
        cells.append(NOTHING if against is None else PLAIN.show(Estimate(against.mean)))
        mean = times[variant][0]
        best = len(means) > 1 and mean is not None and mean.mean == min(means)
        rows.append(Row(variant, tuple(cells), best))
    limits = class_limits(group, variants[0].runs[0].scale)
    return Section(f"{group} flows" + (f", {limits}" if limits else ""), f"FCT in {scale.unit}", tuple(rows))


def completeness(variants: Sequence[Variant], load: float | None) -> list[Row]:
    """Return seeds, flows, unfinished flows, deadlines, retransmissions and validity."""
    rows = []
    for variant in variants:
        runs = variant.at(load)
        finished = sum(run.summary["fct_us"]["all"]["n"] for run in runs)
        unfinished = sum(run.summary["unfinished"] for run in runs)
        deadlines, missed = (sum(run.summary["deadlines"][key] for run in runs) for key in ("n", "missed"))
        seeds = ", ".join(str(run.seed) for run in sorted(runs, key=lambda run: run.seed))
        retransmissions = estimate(run.summary["retransmissions"] for run in runs)
        invalid = sum(not run.summary["valid"]["ok"] for run in runs)
        cells = (
            seeds or NOTHING,
            count(finished + unfinished),
            count(unfinished),
            count(deadlines) if deadlines else NOTHING,
            count(missed) if deadlines else NOTHING,
            percent(miss_ratio(runs)),
            NOTHING if retransmissions is None else count(round(retransmissions.mean)),
            f"{invalid} of {len(runs)} not" if invalid else "yes",
        )
        rows.append(Row(variant, cells))
    return rows


def applications(variants: Sequence[Variant], load: float | None) -> list[Row]:
    """Return FCT, slowdown and deadlines of the flows that other programs had during the runs.

    There are no rows without such flows.
    """
    rows = []
    for variant in variants:
        summaries = [watched for run in variant.at(load) if (watched := run.watched) is not None]
        if not summaries:
            continue
        times = [estimate(summary["fct_us"]["all"][name] for summary in summaries) for name in FCT_COLUMNS]
        slow = estimate(summary["slowdown"]["all"]["mean"] for summary in summaries)
        scale = time_scale([time.mean for time in times if time])
        n, deadlines, missed = (
            sum(summary[key] for summary in summaries) for key in ("n", "deadlines", "missed")
        )
        cells = [f"{scale.show(time)} {scale.unit}" if time else NOTHING for time in times]
        cells = [count(n), *cells, PLAIN.show(slow), count(deadlines), count(missed)]
        rows.append(Row(variant, tuple(cells)))
    return rows


def differences(variants: Sequence[Variant], besides: tuple[str, ...] = ()) -> tuple[list[str], list[Row]]:
    """Return the keys in which the variants' scenarios differ, and each variant's values, over all
    loads and seeds. Keys that begin as one of `besides` are left out."""
    keys = differing([run for variant in variants for run in variant.runs])
    keys = [key for key in keys if not key.startswith(besides)]
    if all(variant.label == variant.scheme for variant in variants):
        keys = [key for key in keys if key != "scheme.name"]  # the label has it
    return keys, [Row(variant, tuple(_value(variant, key) for key in keys)) for variant in variants]


def _value(variant: Variant, key: str) -> str:
    return _by_load(variant, lambda run: shown(run.settings.get(key)))


def _by_load(variant: Variant, value_of: Callable[[Run], str]) -> str:
    """Return the value that all runs of a variant share, or its value at each load."""
    values = list(dict.fromkeys(map(value_of, variant.runs)))
    if len(values) == 1:
        return values[0]
    by_load = {f"{run.load:g}": value_of(run) for run in variant.runs if run.load is not None}
    return "; ".join(f"at {load}: {value}" for load, value in sorted(by_load.items())) or "differs"


@dataclass(frozen=True)
class Parameter:
    """A field of the policy, with its value under each variant."""

    name: str
    title: str
    values: tuple[str, ...]
    differs: bool


def parameters(variants: Sequence[Variant]) -> list[Parameter]:
    """Return the fields of the policies as they ran, without the scheme's name and fields that no variant has."""
    if all(run.policy is None for variant in variants for run in variant.runs):
        return []
    shown_fields = []
    for field in (field for field in POLICY_FIELDS if field.name != "scheme"):
        values = tuple(_by_load(variant, partial(_in_policy, field.name)) for variant in variants)
        if any(value != NOTHING for value in values):
            shown_fields.append(Parameter(field.name, field.title, values, len(set(values)) > 1))
    return shown_fields


def _in_policy(name: str, run: Run) -> str:
    if run.policy is None:
        return NOTHING
    value = run.policy.get(name)
    text = field_text(run.scheme, name, value) if run.scheme in SCHEMES else shown(value)
    return text.replace('"', "").strip("[]")


def common(variants: Sequence[Variant], besides: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Return the scenario's tables with the values that all runs share, without keys that begin as in `besides`."""
    runs = [run for variant in variants for run in variant.runs]
    different = set(differing(runs))
    tables: dict[str, list[str]] = {}
    for key, value in runs[0].settings.items():
        if key not in different and not key.startswith(besides):
            table, _, name = key.rpartition(".")
            tables.setdefault(table or "scenario", []).append(f"{name} {shown(value)}")
    return [(table, ", ".join(values)) for table, values in tables.items()]
