# SPDX-License-Identifier: Apache-2.0
"""Flow records into the store. A delivery is answered once its transaction has ended."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from sqlalchemy import Engine

from sluice.policy.wire.records import FlowRecord
from sluice.store.flows import Added, add_batch
from sluice.webui.known_network import KnownNetwork


class Ingestion:
    """Writes flow records into the store, a transaction for each delivery."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known = KnownNetwork(engine)
        self._writer = threading.Lock()

    def add(self, records: Sequence[FlowRecord]) -> Added:
        """Store the records and return what became of them. Raises the store's error.

        Watched flows get the names and the ideal FCT that the network gives them.
        """
        completed = self._known.completed(records)
        with self.alone():
            return add_batch(self._engine, completed)

    def alone(self) -> AbstractContextManager[object]:
        """Return a context manager: while it is held, no delivery of this process competes for SQLite's one writer.

        PostgreSQL has many writers, so there a delivery waits for no other task of this process.
        """
        return self._writer if self._engine.dialect.name == "sqlite" else nullcontext()
