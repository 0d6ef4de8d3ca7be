# SPDX-License-Identifier: Apache-2.0
"""Numbers as people read them: three significant digits, one unit a table section."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from experiments.report.figures import Estimate

NOTHING = "–"


@dataclass(frozen=True)
class Scale:
    """A unit, and as many decimals as its smallest value needs for three digits."""

    unit: str
    factor: float
    decimals: int

    def show(self, figure: Estimate | None) -> str:
        if figure is None:
            return NOTHING
        text = self._number(figure.mean)
        return text if figure.deviation is None else f"{text} ± {self._number(figure.deviation)}"

    def _number(self, value: float) -> str:
        return f"{value * self.factor:,.{self.decimals}f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def time_scale(values_us: Iterable[float]) -> Scale:
    """A unit for times in microseconds that belong together: by their smallest."""
    smallest = min((value for value in values_us if value > 0), default=1.0)
    for unit, size_us in (("s", 1e6), ("ms", 1e3), ("µs", 1.0)):
        if smallest >= size_us / 2:
            return Scale(unit, 1 / size_us, _decimals(smallest / size_us))
    return Scale("µs", 1.0, 3)


def plain_scale(values: Iterable[float]) -> Scale:
    """Slowdowns and ratios."""
    return Scale("", 1.0, max(1, _decimals(min((v for v in values if v > 0), default=1.0))))


def _decimals(smallest: float) -> int:
    return min(3, max(0, 2 - math.floor(math.log10(smallest))))


def percent(share: Estimate | None) -> str:
    text = Scale("%", 100.0, 2 if share and share.mean < 0.1 else 1).show(share)
    return text if share is None else f"{text} %"


def size_text(size_bytes: float) -> str:
    """100 KB, 1.5 MB"""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if size_bytes >= size:
            return f"{size_bytes / size:g} {unit}"
    return f"{size_bytes:g} B"


def count(number: int) -> str:
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
