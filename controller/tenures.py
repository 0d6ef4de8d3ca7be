# SPDX-License-Identifier: Apache-2.0
"""In whose name a row is written: as the holder of the lease, or of a part of the switches that several share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import Engine

from sluice.controller.writes import Write
from sluice.store import lease, parts


@dataclass
class Tenure:
    """A time during which this controller leads. It may take its own lease again with a greater generation."""

    generation: int
    ended: bool = False
    part: int | None = None
    """What it leads; None: all switches."""
    since: int = 0
    """The first generation of a part."""


@dataclass(frozen=True)
class Waiting:
    """A write, and the tenure in which it was recorded."""

    write: Write
    tenure: Tenure


@dataclass(frozen=True)
class Batch:
    """Writes that wait one after another, together."""

    write: Write
    tenures: Sequence[Tenure]
    """Those that have not ended."""
    count: int
    """How many writes these are, also in tenures that have ended."""


def next_batch(waiting: Sequence[Waiting]) -> Batch:
    """Return the oldest write, with all that follow it and have rows for the same function."""
    first = waiting[0]
    if first.tenure.ended:
        return Batch(first.write, (), 1)
    write, tenures, count = first.write.copy(), [first.tenure], 1
    for item in islice(waiting, 1, None):
        if not item.tenure.ended:
            if not write.absorb(item.write):
                break
            tenures.append(item.tenure)
        count += 1
    return Batch(write, tenures, count)


def fenced(engine: Engine, tenures: Collection[Tenure]) -> Engine:
    """Return the store for one who holds these tenures: one of the lease, or those of parts."""
    held = {tenure.part: tenure.generation for tenure in tenures if tenure.part is not None}
    if held:
        return parts.fenced(engine, held)
    (only,) = {tenure.generation for tenure in tenures}
    return lease.fenced(engine, parts.LEASE, only)
