# SPDX-License-Identifier: Apache-2.0
"""Flow sizes: empirical distributions, read from tables, and mixes of fixed sizes and tables.

Both turn uniform random numbers into sizes. The size of a flow depends on exactly one number.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from sluice.policy.errors import FieldError
from sluice.policy.figures.metrics import Array, wire_bytes
from sluice.policy.units import MAX_FLOW_BYTES, MIN_FLOW_BYTES

Parts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Group:
    """What the flows of one part have in common, besides their sizes."""

    sources: tuple[str, ...] = ()
    """Hosts that send them; empty means every host but the receiver."""
    control: str = ""
    """Name of their congestion control; empty: the scheme's."""
    level: int = 0
    """Their level; 0: the last one."""


_STEPS = 4096
"""Points of each piece of a distribution for computing a mean. The mean is exact for straight pieces."""
_PACKET_BYTES = re.compile(r"[1-9][0-9]{0,8}")
_SUM_SLACK = 1e-9
"""How far a sum of rounded probabilities may end from 1 or 100."""
_PACKET_SLACK = 1e-9
"""Greatest rounding error of an interpolation, as a share of a packet."""


@dataclass(frozen=True)
class SizeCdf:
    """An empirical distribution of flow sizes: points (bytes, cumulative probability), linear in between.

    A first point above probability 0 is a step: this share of the flows has exactly this size. Two
    points with the same size are a step, too.
    """

    name: str
    sizes_bytes: tuple[float, ...]
    cumulative: tuple[float, ...]
    packet_bytes: int | None = None
    """Sizes are rounded up to whole packets of this many bytes, as in ns-2's tables; None: to whole bytes."""
    notice: str = ""
    """How the file was understood, if that is not plain."""

    @property
    def mean_bytes(self) -> float:
        """Mean of the interpolated distribution (trapezoids between the points), without rounding
        to packets."""
        sizes, cumulative = np.asarray(self.sizes_bytes), np.asarray(self.cumulative)
        return float(sizes[0] * cumulative[0] + np.sum((sizes[1:] + sizes[:-1]) / 2 * np.diff(cumulative)))

    @property
    def groups(self) -> tuple[Group, ...]:
        """One for each part."""
        return (Group(),)

    @property
    def largest_bytes(self) -> float:
        """Size of the largest flow."""
        return self.sizes_bytes[-1]

    def at(self, uniform: Array) -> tuple[Array, Parts]:
        """Return sizes in bytes, and the part that each belongs to, from numbers in [0, 1)."""
        size = np.interp(uniform, self.cumulative, self.sizes_bytes)
        if self.packet_bytes is not None:
            size = np.ceil(size / self.packet_bytes - _PACKET_SLACK) * self.packet_bytes
        return size, np.zeros(len(size), np.int64)

    def pieces(self) -> tuple[Array, Parts]:
        """Return the bounds (n+1) of the pieces of [0, 1) on which the size is smooth, and their parts (n)."""
        bounds = np.unique([0.0, *self.cumulative])
        return bounds, np.zeros(len(bounds) - 1, np.int64)


@dataclass(frozen=True)
class MixPart:
    """A share of the flows: one size, or the sizes of a table, from some of the hosts."""

    bytes: int | None
    """None: the sizes come from `table`."""
    share: float
    table: SizeCdf | None = None
    group: Group = Group()

    @property
    def sizes(self) -> SizeCdf:
        """The sizes as a table. A single size is a table of one step."""
        if self.table is not None:
            return self.table
        assert self.bytes is not None
        return SizeCdf(f"{self.bytes} B", (self.bytes, self.bytes), (0.0, 1.0))


@dataclass(frozen=True)
class Mix:
    """Sizes of several parts. Its members are as those of SizeCdf."""

    parts: tuple[MixPart, ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(part.group for part in self.parts)

    @property
    def largest_bytes(self) -> float:
        return max(part.sizes.largest_bytes for part in self.parts)

    def _bounds(self) -> Array:
        shares = np.cumsum([part.share for part in self.parts])
        return np.concatenate([[0.0], shares / shares[-1]])

    def at(self, uniform: Array) -> tuple[Array, Parts]:
        bounds = self._bounds()
        part = np.searchsorted(bounds[1:-1], uniform, side="right")
        within = (uniform - bounds[part]) / (bounds[part + 1] - bounds[part])
        size = np.empty(len(uniform))
        for i, of in enumerate(self.parts):
            size[part == i] = of.sizes.at(within[part == i])[0]
        return size, part

    def pieces(self) -> tuple[Array, Parts]:
        bounds, parts = [np.zeros(1)], []
        for i, (low, high) in enumerate(pairwise(self._bounds())):
            inner, _ = self.parts[i].sizes.pieces()
            bounds.append(low + (high - low) * inner[1:])
            parts.append(np.full(len(inner) - 1, i))
        return np.concatenate(bounds), np.concatenate(parts)


Sizes = SizeCdf | Mix
"""A source of flow sizes."""


def scaled_bytes(sizes_bytes: Array, scale: float) -> npt.NDArray[np.int64]:
    """Return whole bytes of flows: all sizes times `scale`, none below MIN_FLOW_BYTES."""
    return np.maximum(MIN_FLOW_BYTES, np.rint(sizes_bytes * scale)).astype(np.int64)


def mean_by_part(sizes: Sizes, of: Callable[[Array], Array]) -> Array:
    """Return for each part its share of the flows times the mean of `of(size)` over them. The sum
    is the mean."""
    bounds, parts = sizes.pieces()
    widths = np.diff(bounds)
    uniform = bounds[:-1, None] + widths[:, None] * (np.arange(_STEPS) + 0.5) / _STEPS
    values = of(sizes.at(uniform.ravel())[0]).reshape(uniform.shape).mean(axis=1)
    means = np.zeros(len(sizes.groups))
    np.add.at(means, parts, values * widths)
    return means


def mean_wire_bytes(sizes: Sizes, scale: float) -> Array:
    """Return for each part its share times the mean bytes of its flows on a link."""
    return mean_by_part(sizes, lambda size: wire_bytes(scaled_bytes(size, scale)))


# -- tables


_NS2_PACKET_BYTES = 1460
_FEW_BYTES = 30_000
"""Sizes that are all below this may be counts of packets."""


def parse_cdf(name: str, text: str) -> SizeCdf:
    """Read "bytes probability" lines. "#" starts a comment; probabilities run to 1 or to 100 (percent).

    A line "packet_bytes 1460" before them means that sizes are in packets of that many bytes, and
    that flows are whole packets. Two other forms are known by their content: Homa's files, whose first line is a mean
    and whose points are steps, and ns-2's, of three columns: packets, 1, probability. Raises FieldError that names the
    line if the table does not rise, or does not end at 1 (100).
    """
    lines = [(number, line.split("#")[0].split()) for number, line in enumerate(text.splitlines(), start=1)]
    lines = [(number, words) for number, words in lines if words]
    said, steps, packet_bytes = "", False, None
    if lines and len(lines[0][1]) == 1 and _is_number(lines[0][1][0]):
        said, steps = "read as Homa's sizes: a mean, then steps", True
        del lines[0]
    elif lines and lines[0][1][0] == "packet_bytes":
        number, words = lines.pop(0)
        if len(words) != 2 or not _PACKET_BYTES.fullmatch(words[1]):
            raise FieldError(
                name, f'line {number}: write "packet_bytes 1460", once and before the first point'
            )
        packet_bytes = int(words[1])
    elif lines and all(len(words) == 3 and words[1] == "1" for _, words in lines):
        said, packet_bytes = f"read as ns-2's sizes: packets of {_NS2_PACKET_BYTES} bytes", _NS2_PACKET_BYTES
        lines = [(number, [words[0], words[2]]) for number, words in lines]
    points: list[tuple[float, float]] = []
    for number, words in lines:
        if words[0] == "packet_bytes":
            raise FieldError(
                name, f'line {number}: write "packet_bytes 1460", once and before the first point'
            )
        before = points[-1] if points else (0.0, 0.0)
        point = _point(name, number, words, before)
        points += [(point[0], before[1]), point] if steps else [point]
    return _cdf(name, points, packet_bytes, said)


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _cdf(name: str, points: list[tuple[float, float]], packet_bytes: int | None, said: str) -> SizeCdf:
    whole = next(
        (total for total in (1.0, 100.0) if points and abs(points[-1][1] - total) <= _SUM_SLACK), 0.0
    )
    if len(points) < 2 or not whole:
        last = f", not {points[-1][1]:g}" if points else ""
        raise FieldError(name, f"needs two points or more, up to probability 1, or 100 for percent{last}")
    unit, largest = packet_bytes or 1, points[-1][0]
    if not 0 < largest * unit <= MAX_FLOW_BYTES:
        raise FieldError(
            name,
            f"the last size must be above 0 and at most {MAX_FLOW_BYTES // 10**9} GB, not {largest:g}",
        )
    if packet_bytes is None and not said and largest < _FEW_BYTES:
        said = (
            f'read as bytes, up to {largest:g}; for packets, write "packet_bytes 1460" before the first point'
        )
    sizes, shares = tuple(s * unit for s, _ in points), tuple(min(p / whole, 1.0) for _, p in points)
    return SizeCdf(name, sizes, (*shares[:-1], 1.0), packet_bytes, said)


def _point(name: str, number: int, words: list[str], before: tuple[float, float]) -> tuple[float, float]:
    try:
        size, probability = map(float, words)
    except ValueError:
        size = probability = math.nan
    if not (math.isfinite(size) and math.isfinite(probability)):
        line = " ".join(words)
        raise FieldError(name, f'line {number}: write "bytes probability", not {line!r}')
    if size < before[0] or probability < before[1]:
        low = "zero" if before == (0.0, 0.0) else "the line before"
        raise FieldError(name, f"line {number}: sizes and probabilities must not fall below {low}")
    return size, probability
