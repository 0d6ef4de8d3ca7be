# SPDX-License-Identifier: Apache-2.0
"""Numbers as text: three significant digits, and one unit for all values that are compared."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sluice.report.figures import Estimate

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
        decimals = _decimals(mean)
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
    known = [value for value in values_us if value > 0] or [1.0]
    middle, least = statistics.geometric_mean(known), min(known)
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


def _decimals(value: float) -> int:
    return 2 if value == 0 else min(3, max(0, 2 - math.floor(math.log10(abs(value)) + 1e-9)))


def _grouped(value: float, decimals: int) -> str:
    return f"{value:,.{decimals}f}".replace(",", THIN)
