# SPDX-License-Identifier: Apache-2.0
"""The report's numbers, and its tables as rows of text.

Numbers are means over seeds with their deviation, ratios to a baseline, and curves. They are written with three
significant digits, and with one unit for all values that are compared. The scoreboard has figures with confidence
intervals, and whether a variant is better than the baseline: those of policy/figures/scoreboard.py, as in the
dashboard.
"""

import csv
import io
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import itemgetter
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from sluice.policy.figures import scoreboard as scores
from sluice.policy.figures.scoreboard import Period, Score, ScoredFlows
from sluice.policy.wire.records import MEDIUM_LIMIT_BYTES, SMALL_LIMIT_BYTES
from sluice.report.runs import NOTHING, Flows, Run, Variant

FEWEST_BINS, MOST_BINS = 10, 20
"""Bins of sizes, if all have enough flows."""
MIN_FOR_MEAN = 10
MIN_FOR_PERCENTILE = {50: 10, 95: 20, 99: 100}
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
    p50: Floats
    p95: Floats
    p99: Floats


def slowdown_by_size(flows: Flows) -> SizeBins:
    """Return bins of equally many flows, as far as sizes do not repeat: flows of one size are in one bin."""
    finished = ~np.isnan(flows.slowdown)
    logs, slowdown = np.log10(flows.size_bytes[finished]), flows.slowdown[finished]
    n = len(logs)
    bins = max(FEWEST_BINS, min(n // MIN_FOR_PERCENTILE[99], MOST_BINS))
    bins = max(1, min(bins, n // MIN_FOR_MEAN))
    last = np.sort(logs)[np.arange(1, bins) * n // bins - 1]
    numbers = np.searchsorted(np.unique(last), logs)
    rows = []
    for number in np.unique(numbers):
        inside = numbers == number
        values, n = slowdown[inside], int(inside.sum())
        mean = values.mean() if n >= MIN_FOR_MEAN else np.nan
        tails = [
            np.percentile(values, q) if n >= least else np.nan for q, least in MIN_FOR_PERCENTILE.items()
        ]
        rows.append((10 ** logs[inside].mean(), mean, *tails))
    return SizeBins(*np.array(rows, float).reshape(-1, 5).T)


def loads_of(variants: Iterable[Variant]) -> list[float | None]:
    """Return every load of any run, rising. None, for scenarios without a load, comes first."""
    loads = {run.load for variant in variants for run in variant.runs}
    return sorted(loads, key=lambda load: -1.0 if load is None else load)


# ── As text ──────────────────────────────────────────────────────────────────────────────────────────


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


# ── The scoreboard ───────────────────────────────────────────────────────────────────────────────────


SIGNS = {scores.BETTER: "▼ ", scores.WORSE: "▲ "}
BETWEEN_RUNS_S = 1.0
"""Gap between the flows of two runs, so that no block of the bootstrap mixes them more than necessary."""

Document = Mapping[str, Any]
"""The figures of a variant, as GET /scoreboard has those of a version."""


@dataclass(frozen=True)
class Cell:
    """A figure of the table."""

    value: str
    interval: str = ""
    ratio: str = ""
    verdict: str = ""
    detail: str = ""
    """The interval of the ratio, for who points at the cell."""


@dataclass(frozen=True)
class BoardRow:
    """A variant of the table."""

    variant: Variant
    flows: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Board:
    """The scoreboard of one load."""

    headings: tuple[str, ...]
    rows: tuple[BoardRow, ...]
    csv_uri: str


def board(
    variants: Sequence[Variant], baseline: Variant, load: float | None, classes: Sequence[str]
) -> Board:
    """Return the scoreboard of these variants at a load, with the size classes that have flows."""
    documents = compared(variants, baseline, load)
    columns = _columns([*classes, "all"], list(documents.values()))
    rows = tuple(
        BoardRow(variant, count(document["flows"]), tuple(column.cell(document) for column in columns))
        for variant, document in documents.items()
    )
    return Board(tuple(column.heading for column in columns), rows, _csv_uri(documents))


def compared(variants: Sequence[Variant], baseline: Variant, load: float | None) -> dict[Variant, Document]:
    """Return the figures of each variant that has flows at a load, compared with the baseline's."""
    scored: dict[Variant, Score] = {}
    for number, variant in enumerate(variants):
        runs = [flows for run in variant.at(load) if len(flows := run.scored())]
        if runs:
            period = Period(number, variant.scheme, -math.inf, math.inf)
            scored[variant] = Score(period, _one_after_another(runs))
    base = scored.get(baseline)
    documents = scores.scoreboard([*scored.values()], base.period.version if base else None)
    return dict(zip(scored, documents, strict=True))


def _one_after_another(runs: Sequence[ScoredFlows]) -> ScoredFlows:
    """Return the flows of all runs, as if each run had begun after the one before."""
    shifts, free_s = [], 0.0
    for flows in runs:
        shifts.append(free_s - flows.began_s.min())
        free_s += float(np.ptp(flows.began_s)) + BETWEEN_RUNS_S
    columns = {
        field.name: np.concatenate([getattr(flows, field.name) for flows in runs])
        for field in fields(ScoredFlows)
    }
    columns["began_s"] = np.concatenate([f.began_s + shift for f, shift in zip(runs, shifts, strict=True)])
    return ScoredFlows(**columns)


@dataclass(frozen=True)
class Column:
    """A figure of each variant."""

    title: str
    figure_of: Callable[[Document], Document]
    scale: Scale

    @property
    def heading(self) -> str:
        return f"{self.title}, {self.scale.unit}" if self.scale.unit else self.title

    def cell(self, document: Document) -> Cell:
        figure = self.figure_of(document)
        if figure["value"] is None:
            return Cell(NOTHING)
        interval = self._range(figure, self.scale)
        against = figure["against"]
        if against is None or against["ratio"] is None:
            return Cell(self._text(figure["value"]), interval)
        verdict = against["verdict"]
        ratio = f"×{against['ratio']:.2f} {SIGNS.get(verdict, '')}{verdict}"
        detail = f"ratio {self._range(against, PLAIN)}" if against["low"] is not None else ""
        if against["detectable"] is not None:
            detail += (
                f"; these flows show a change of {against['detectable']:.0%} or more in four of five cases"
            )
        return Cell(self._text(figure["value"]), interval, ratio, verdict, detail)

    def _text(self, value: float) -> str:
        return self.scale.show(Estimate(value))

    def _range(self, figure: Document, scale: Scale) -> str:
        low, high = figure["low"], figure["high"]
        if low is None or high is None:
            return ""
        return " to ".join(scale.show(Estimate(end)) for end in (low, high))


def _columns(classes: Sequence[str], documents: Sequence[Document]) -> list[Column]:
    """Return the columns in which any variant has a figure. All times of a column have one unit."""
    columns = [
        Column("Mean slowdown", _of_class("all", "slowdown"), PLAIN),
        Column("Missed", itemgetter("miss_ratio"), PERCENT),
        Column("Retransmissions per flow", itemgetter("retransmissions_per_flow"), PLAIN),
    ]
    times_of_flows = [
        (f"{name.capitalize()} {title}", _of_class(name, key))
        for name in classes
        for title, key in (("mean", "mean_us"), ("p99", "p99_us"))
        if (name, title) != ("all", "p99")  # it is that of the largest flows
    ]
    times = [
        Column(title, figure_of, time_scale(_known(figure_of, documents)))
        for title, figure_of in times_of_flows
    ]
    return [column for column in (*times, *columns) if _known(column.figure_of, documents)]


def _known(figure_of: Callable[[Document], Document], documents: Sequence[Document]) -> list[float]:
    values = [figure_of(document)["value"] for document in documents]
    return [value for value in values if value is not None]


def _of_class(name: str, key: str) -> Callable[[Document], Document]:
    return lambda document: document["classes"][name][key]


_HEADINGS = (
    *("variant", "class", "figure", "value", "low", "high"),
    *("ratio", "ratio_low", "ratio_high", "verdict", "detectable"),
)


def _csv_uri(documents: Mapping[Variant, Document]) -> str:
    """Return all figures as an address that the page contains. Times are in microseconds."""
    rows = []
    for variant, document in documents.items():
        figures = [
            (name, key, document["classes"][name][key])
            for name in scores.CLASSES
            for key in scores.CLASS_FIGURES
        ]
        figures += [("all", key, document[key]) for key in ("miss_ratio", "retransmissions_per_flow")]
        for name, key, figure in figures:
            if figure["value"] is not None:
                values = [figure[item] for item in ("value", "low", "high")]
                compared = [
                    (figure["against"] or {}).get(item)
                    for item in ("ratio", "low", "high", "verdict", "detectable")
                ]
                rows.append([variant.label, name, key, *values, *compared])
    return csv_address(csv_text(_HEADINGS, rows))
