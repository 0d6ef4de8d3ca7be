# SPDX-License-Identifier: Apache-2.0
"""Deliveries that wait for the store at the same moment are written together, in one transaction.

One thread writes at a time; what came while it wrote, the next one writes at once. So a slow disk makes transactions
larger, not the queue longer, and this process's threads do not fight over the store's one writer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from sqlalchemy import Engine

from policy.records import FlowRecord
from store.flows import add_batches

MOST_TOGETHER = 5_000
"""Records of one transaction, if several batches make them: 60 ms on SQLite, for whoever waits behind it."""


@dataclass
class _Delivery:
    records: Sequence[FlowRecord]
    accepted: int | None = None
    error: Exception | None = None

    @property
    def done(self) -> bool:
        return self.accepted is not None or self.error is not None


class Ingestion:
    """The way of flow records into the store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._writing = threading.Lock()
        self._waiting: deque[_Delivery] = deque()
        """Appended to by everybody, taken from by who is writing."""

    def add(self, records: Sequence[FlowRecord]) -> int:
        """Keep the records and return how many were new, once they are in the store. Raises what the store raises."""
        delivery = _Delivery(records)
        self._waiting.append(delivery)
        with self._writing:
            while not delivery.done:
                self._write(self._taken())
        if delivery.error is not None:
            raise delivery.error
        assert delivery.accepted is not None
        return delivery.accepted

    def alone(self) -> AbstractContextManager[object]:
        """While this is held nobody of this process writes flow records."""
        return self._writing

    def _taken(self) -> list[_Delivery]:
        """The oldest that wait, as many as go together; one at least, as the caller's own waits."""
        taken = [self._waiting.popleft()]
        count = len(taken[0].records)
        while self._waiting and count + len(self._waiting[0].records) <= MOST_TOGETHER:
            taken.append(self._waiting.popleft())
            count += len(taken[-1].records)
        return taken

    def _write(self, deliveries: Sequence[_Delivery]) -> None:
        """Each of them is done afterwards. They are valid records: what fails is the store, for all of them."""
        try:
            counts = add_batches(self._engine, [delivery.records for delivery in deliveries])
        except Exception as error:
            for delivery in deliveries:
                delivery.error = error
            return
        for delivery, count in zip(deliveries, counts, strict=True):
            delivery.accepted = count
