# SPDX-License-Identifier: Apache-2.0
"""Deliveries that arrive at the same moment share one transaction (webui/together.py)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from sqlalchemy import Engine

from policy.records import FlowRecord
from store.flows import Added, add_batches
from webui.known_network import KnownNetwork
from webui.together import Together

MOST_TOGETHER = 5_000
"""The most records of several batches in one transaction. 5,000 take 60 ms on SQLite, and others
wait that long."""


class Ingestion:
    """Writes flow records into the store, one transaction at a time."""

    def __init__(self, engine: Engine) -> None:
        self._known = KnownNetwork(engine)
        self._has_one_writer = engine.dialect.name == "sqlite"
        self._together: Together[Sequence[FlowRecord], Added] = Together(
            lambda batches: add_batches(engine, batches), len, lambda: MOST_TOGETHER
        )

    def add(self, records: Sequence[FlowRecord]) -> Added:
        """Store the records and return what became of them. Raises the store's error.

        The records are valid, so an error is the store's and holds for all that were written together. Watched flows
        get the names and the ideal FCT that the network gives them.
        """
        return self._together.add(self._known.completed(records))

    def alone(self) -> AbstractContextManager[object]:
        """Return a context manager: while it is held, no delivery of this process competes for SQLite's one writer.

        PostgreSQL has many writers, so there a delivery waits for no other task.
        """
        return self._together.alone() if self._has_one_writer else nullcontext()
