# SPDX-License-Identifier: Apache-2.0
"""Deliveries that arrive at the same moment share one transaction (webui/together.py)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from sqlalchemy import Engine

from sluice.policy.wire.records import FlowRecord
from sluice.store.flows import Added, add_batches
from sluice.webui.durable import Durable
from sluice.webui.known_network import KnownNetwork
from sluice.webui.together import Together

MOST_TOGETHER = 5_000
"""The most records of several batches in one transaction. 5,000 take 60 ms on SQLite, and others
wait that long."""


@dataclass(frozen=True)
class _Delivery:
    records: Sequence[FlowRecord]
    may_be_early: bool
    """The answer may come before the device has the records."""


@dataclass(frozen=True)
class Taken:
    """What became of a delivery."""

    added: Added
    receipt: str | None = None
    """See webui/durable.py. None: the device has the records, if the store's settings say so."""


class Ingestion:
    """Writes flow records into the store, one transaction at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known = KnownNetwork(engine)
        self._has_one_writer = engine.dialect.name == "sqlite"
        self._together: Together[_Delivery, Taken] = Together(
            self._write, lambda one: len(one.records), lambda: MOST_TOGETHER
        )
        self.durable: Durable | None = None
        """None: no delivery is answered before the device has its records."""

    def add(self, records: Sequence[FlowRecord]) -> Added:
        """Store the records and return what became of them. Raises the store's error.

        The records are valid, so an error is the store's and holds for all that were written together. Watched flows
        get the names and the ideal FCT that the network gives them.
        """
        return self.take(records, may_be_early=False).added

    def take(self, records: Sequence[FlowRecord], *, may_be_early: bool) -> Taken:
        """Do `add`. If the delivery may be early, it need not wait for the device: then it has a receipt."""
        return self._together.add(_Delivery(self._known.completed(records), may_be_early))

    def _write(self, deliveries: Sequence[_Delivery]) -> list[Taken]:
        batches = [one.records for one in deliveries]
        epoch = self.durable.epoch if self.durable and all(one.may_be_early for one in deliveries) else ""
        if self.durable is None or not epoch:
            return [Taken(added) for added in add_batches(self._engine, batches)]
        found = add_batches(self._engine, batches, on_device=False)
        receipt = self.durable.receipt(epoch)
        return [Taken(added, receipt) for added in found]

    def alone(self) -> AbstractContextManager[object]:
        """Return a context manager: while it is held, no delivery of this process competes for SQLite's one writer.

        PostgreSQL has many writers, so there a delivery waits for no other task.
        """
        return self._together.alone() if self._has_one_writer else nullcontext()
