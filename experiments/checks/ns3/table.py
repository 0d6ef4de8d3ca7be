# SPDX-License-Identifier: Apache-2.0
"""The figures of a verdict as Markdown tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.checks.ns3.compare import number
from sluice.policy.wire.records import SIZE_CLASSES

TIMES = ("FCT mean", "FCT p50", "FCT p99", "slowdown mean", "slowdown p99")
Entry = Mapping[str, Any]


def class_rows(figures: Sequence[Entry]) -> Iterator[str]:
    """Yield a row for each case and size class: ours / ns-3's."""
    by_name = {figure["what"]: figure for figure in figures}
    yield f"| case | flows | {' | '.join(TIMES)} |"
    yield "|---" * (2 + len(TIMES)) + "|"
    for case in dict.fromkeys(name.split(": ")[0] for name in by_name):
        for size_class in SIZE_CLASSES:
            row = [by_name.get(f"{case}: {size_class} {what}") for what in TIMES]
            if all(row):
                yield f"| {case} | {size_class} | {' | '.join(_pair(figure) for figure in row if figure)} |"


def _pair(figure: Entry) -> str:
    mark = "" if figure["holds"] else (" (chance)" if figure["is_chance"] else " **differs**")
    return f"{number(figure['ours'])} / {number(figure['ns3'])} ({figure['ratio']:.2f}){mark}"


def rows(figures: Sequence[Entry]) -> Iterator[str]:
    """Yield a row for each figure that is not of a size class."""
    yield "| case | figure | Sluice | its own range | ns-3 | ratio | within |"
    yield "|---|---|---|---|---|---|---|"
    for figure in figures:
        case, what = figure["what"].split(": ", 1)
        if what.startswith(SIZE_CLASSES):
            continue
        runs = figure["runs"]
        spread = f"{number(min(runs))} … {number(max(runs))}" if runs else "–"
        name = f"{what} ({figure['unit']})" if figure["unit"] else what
        ratio = f"{figure['ratio']:.3f}" if figure["ours"] else "–"
        values = (case, name, number(figure["ours"]), spread, number(figure["ns3"]), ratio, _verdict(figure))
        yield f"| {' | '.join(values)} |"


def _verdict(figure: Entry) -> str:
    if figure["holds"]:
        return f"{figure['tolerance']:.1%}" if figure["tolerance"] < 0.01 else f"{figure['tolerance']:.0%}"
    return "chance" if figure["is_chance"] else "**differs**"
