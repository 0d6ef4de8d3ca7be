# SPDX-License-Identifier: Apache-2.0
"""Deliveries that arrive at the same moment share one transaction.

One thread writes at a time. The next thread then writes all that arrived in the meantime. So a
slow disk leads to larger transactions, not to a longer queue. The threads of this process do
not compete for the store's one writer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from sqlalchemy import Engine

from policy.records import FlowRecord
from store.flows import Added, add_batches
from webui.known_network import KnownNetwork

MOST_TOGETHER = 5_000
"""The most records of several batches in one transaction. 5,000 take 60 ms on SQLite, and others
wait that long."""


@dataclass
class _Delivery:
    records: Sequence[FlowRecord]
    added: Added | None = None
    error: Exception | None = None

    @property
    def done(self) -> bool:
        return self.added is not None or self.error is not None


class Ingestion:
    """Writes flow records into the store, one transaction at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known = KnownNetwork(engine)
        self._writing = threading.Lock()
        self._waiting: deque[_Delivery] = deque()
        """Every thread appends to it; the thread that writes takes from it."""

    def add(self, records: Sequence[FlowRecord]) -> Added:
        """Store the records and return what became of them. Raises the store's error.

        Watched flows get the names and the ideal FCT that the network gives them.
        """
        delivery = _Delivery(self._known.completed(records))
        self._waiting.append(delivery)
        with self._writing:
            while not delivery.done:
                self._write(self._taken())
        if delivery.error is not None:
            raise delivery.error
        assert delivery.added is not None
        return delivery.added

    def alone(self) -> AbstractContextManager[object]:
        """Return a context manager: while it is held, no other thread of this process writes flow records."""
        return self._writing

    def _taken(self) -> list[_Delivery]:
        """Return the oldest deliveries, as many as fit one transaction, but at least one."""
        taken = [self._waiting.popleft()]
        count = len(taken[0].records)
        while self._waiting and count + len(self._waiting[0].records) <= MOST_TOGETHER:
            taken.append(self._waiting.popleft())
            count += len(taken[-1].records)
        return taken

    def _write(self, deliveries: Sequence[_Delivery]) -> None:
        """Store the deliveries, after which each is done. The records are valid, so an error is
        the store's and holds for all."""
        try:
            results = add_batches(self._engine, [delivery.records for delivery in deliveries])
        except Exception as error:
            for delivery in deliveries:
                delivery.error = error
            return
        for delivery, added in zip(deliveries, results, strict=True):
            delivery.added = added
