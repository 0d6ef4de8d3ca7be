# SPDX-License-Identifier: Apache-2.0
"""The flows of the last minutes in memory, as columns: each record is read from the store once, whoever asks."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass

from sqlalchemy import Engine

from store.flows import MOST_COLUMNS, FlowColumns, flow_columns, flow_columns_after

SPAN_S = 960.0
"""How far back the memory goes: the dashboard's common windows, and a little more."""


@dataclass(frozen=True)
class _Chunk:
    read_at: float
    newest: float
    columns: FlowColumns


class RecentFlows:
    """Reads on from the last sequence number at every question; asks the store itself for what is older.

    Holds MOST_COLUMNS flows at most, however many come, and gives no more.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._chunks: deque[_Chunk] = deque()
        self._held = 0
        self._sequence = 0
        self._covered_from: float | None = None

    def since(self, at: float) -> FlowColumns:
        """The flows that finished after `at`, as store.flows.flow_columns has them."""
        with self._lock:
            self._catch_up()
            covered = self._covered_from is not None and at >= self._covered_from
            chunks = [chunk.columns for chunk in self._chunks if chunk.newest > at]
        if not covered:
            return flow_columns(self._engine, at)
        columns = FlowColumns.joined([FlowColumns.from_rows([]), *chunks])
        return columns.where(columns.at > at)

    def _catch_up(self) -> None:
        now = time.time()
        if self._covered_from is None:
            self._covered_from = now - SPAN_S
        columns, self._sequence = flow_columns_after(self._engine, self._sequence, self._covered_from)
        if len(columns):
            self._chunks.append(_Chunk(now, float(columns.at.max()), columns))
            self._held += len(columns)
        if len(columns) >= MOST_COLUMNS:  # more than these had come: they are not in the memory
            self._covered_from = max(self._covered_from, float(columns.at.min()))
        while self._chunks and (self._chunks[0].read_at < now - SPAN_S or self._too_many()):
            gone = self._chunks.popleft()
            self._held -= len(gone.columns)
            self._covered_from = max(self._covered_from, gone.read_at)

    def _too_many(self) -> bool:
        """One chunk stays whatever it holds: it is what there is."""
        return self._held > MOST_COLUMNS and len(self._chunks) > 1
