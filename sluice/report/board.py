# SPDX-License-Identifier: Apache-2.0
"""The report's scoreboard: figures with confidence intervals, and whether a variant is better than the baseline.

The figures, intervals and verdicts are those of policy/figures/scoreboard.py, as in the dashboard and after a tour.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import itemgetter
from typing import Any

import numpy as np

from sluice.policy.figures.scoreboard import (
    BETTER,
    CLASS_FIGURES,
    CLASSES,
    WORSE,
    Period,
    Score,
    ScoredFlows,
    scoreboard,
)
from sluice.report.runs import Variant
from sluice.report.tables import (
    NOTHING,
    PERCENT,
    PLAIN,
    Estimate,
    Scale,
    count,
    csv_address,
    csv_text,
    time_scale,
)

SIGNS = {BETTER: "▼ ", WORSE: "▲ "}
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
    scores: dict[Variant, Score] = {}
    for number, variant in enumerate(variants):
        runs = [flows for run in variant.at(load) if len(flows := run.scored())]
        if runs:
            period = Period(number, variant.scheme, -math.inf, math.inf)
            scores[variant] = Score(period, _one_after_another(runs))
    base = scores.get(baseline)
    documents = scoreboard([*scores.values()], base.period.version if base else None)
    return dict(zip(scores, documents, strict=True))


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
        figures = [(name, key, document["classes"][name][key]) for name in CLASSES for key in CLASS_FIGURES]
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
