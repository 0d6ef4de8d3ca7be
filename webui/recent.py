# SPDX-License-Identifier: Apache-2.0
"""The flows of the last minutes in memory, as columns. Each record is read from the store once for
all clients."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Engine

from sluice.store.flow_columns import (
    LATEST_RECORD_S,
    MOST_COLUMNS,
    FlowColumns,
    flow_columns,
    flow_columns_after,
)

SPAN_S = 960.0
"""How far back the memory reaches: the dashboard's usual windows and a minute more."""


@dataclass(frozen=True)
class _Chunk:
    read_at: float
    newest: float
    columns: FlowColumns


class RecentFlows:
    """Reads the new records at each call; older flows come from the store itself.

    It returns at most MOST_COLUMNS flows, and holds one chunk more at most, however many arrive.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._chunks: deque[_Chunk] = deque()
        self._held = 0
        self._sequence = 0
        self._covered_from: float | None = None

    def since(self, at: float, until: float = math.inf) -> FlowColumns:
        """Return the scheduled and watched flows that finished after `at`, as store.flow_columns.flow_columns does."""
        with self._lock:
            self._catch_up()
            covered = self._covered_from is not None and at >= self._covered_from
            # The store would not give more either, and reading 500,000 flows for each picture would cost seconds.
            covered |= self._held >= MOST_COLUMNS and until + LATEST_RECORD_S >= time.time()
            chunks = [chunk.columns for chunk in self._chunks if chunk.newest > at]
        if not covered:
            return flow_columns(self._engine, at, until)
        # Most chunks lie in the window as a whole, so the others are cut first.
        parts = _newest([_between(columns, at, until) for columns in chunks])
        return FlowColumns.joined([FlowColumns.from_rows([]), *parts])

    def _catch_up(self) -> None:
        now = time.time()
        if self._covered_from is None:
            self._covered_from = now - SPAN_S
        columns, self._sequence = flow_columns_after(self._engine, self._sequence, self._covered_from)
        if len(columns):
            self._chunks.append(_Chunk(now, float(columns.at.max()), columns))
            self._held += len(columns)
        if len(columns) >= MOST_COLUMNS:  # older flows may exist that were not read
            self._covered_from = max(self._covered_from, float(columns.at.min()))
        while self._chunks and (self._chunks[0].read_at < now - SPAN_S or self._too_many()):
            gone = self._chunks.popleft()
            self._held -= len(gone.columns)
            self._covered_from = max(self._covered_from, gone.read_at)

    def _too_many(self) -> bool:
        """Whether to drop the oldest chunk: the others have enough flows."""
        return self._held - len(self._chunks[0].columns) >= MOST_COLUMNS


def _newest(parts: list[FlowColumns]) -> list[FlowColumns]:
    """Return the parts with the last MOST_COLUMNS flows. In each part, the newest comes first."""
    excess = sum(map(len, parts)) - MOST_COLUMNS
    if excess <= 0:
        return parts
    first, *others = parts
    if len(first) <= excess:
        return _newest(others)
    return [first.where(np.arange(len(first) - excess)), *others]


def _between(columns: FlowColumns, at: float, until: float) -> FlowColumns:
    chosen = (columns.at > at) & (columns.at <= until)
    return columns if chosen.all() else columns.where(chosen)
