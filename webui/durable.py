# SPDX-License-Identifier: Apache-2.0
"""Which of this worker's deliveries are on PostgreSQL's device, for those that were answered before.

    delivery     records visible, numbered, counted; the answer has a receipt "EPOCH.NUMBER"
    this thread  has the server write all that is committed to its device, once each EVERY_S
    answers      `durable_to`: all receipts of this epoch up to this number survive a power failure

The agent keeps its records until then, and delivers them again if the epoch changes (hostagent/courier.py). So nothing
is lost, and no delivery waits for the device.

An epoch is the life of one connection to the server. A crash of the server ends every connection. So if a receipt's
epoch began before its transaction did, and the connection still answers after the write, no crash lay between. The
epoch ends with the first error.
"""

from __future__ import annotations

import logging
import secrets
import threading

from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

from sluice.store.connections import reading

log = logging.getLogger(__name__)

EVERY_S = 0.1
"""The pause between two writes. An agent delivers every half second, so it need not know sooner."""
RETRY_S = 1.0
_WRITE = text("SELECT pg_logical_emit_message(true, 'sluice', '')")
"""The message is nothing to anyone. But its transaction ends on the device, and all that ended before it with it."""


class Durable(threading.Thread):
    """Runs until `stopping` is set."""

    def __init__(self, engine: Engine, stopping: threading.Event) -> None:
        super().__init__(name="durable", daemon=True)
        self._engine, self._stopping = engine, stopping
        self._condition = threading.Condition()
        self._epoch = ""
        self._given = self._reached = 0

    @property
    def epoch(self) -> str:
        """The epoch for a transaction that begins now. Empty: there is none, so the transaction must wait for the
        device."""
        return self._epoch

    def receipt(self, epoch: str) -> str:
        """Return the receipt of a transaction that has ended, and that began in this epoch."""
        with self._condition:
            if epoch != self._epoch:
                return f"{epoch}.0"  # never confirmed
            self._given += 1
            self._condition.notify_all()
            return f"{epoch}.{self._given}"

    @property
    def reached(self) -> str | None:
        """The last receipt that is on the device; None if there is no epoch."""
        with self._condition:
            return f"{self._epoch}.{self._reached}" if self._epoch else None

    def run(self) -> None:
        trouble = ""
        while not self._stopping.is_set():
            try:
                self._serve()
            except SQLAlchemyError as error:
                if str(error) != trouble:
                    log.warning("deliveries wait for the device until the store answers: %s", error)
                trouble = str(error)
            self._end_epoch()
            self._stopping.wait(RETRY_S)

    def _serve(self) -> None:
        with reading(self._engine) as connection:
            connection.execute(_WRITE)
            self._begin_epoch()
            while not self._stopping.is_set():
                given = self._next()
                if given > self._reached:
                    connection.execute(_WRITE)
                    self._reach(given)
                self._stopping.wait(EVERY_S)

    def _next(self) -> int:
        """Wait for a receipt, and return the last one that was given."""
        with self._condition:
            self._condition.wait_for(lambda: self._given > self._reached or self._stopping.is_set(), RETRY_S)
            return self._given

    def _reach(self, number: int) -> None:
        with self._condition:
            self._reached = number

    def _begin_epoch(self) -> None:
        with self._condition:
            self._epoch, self._given, self._reached = secrets.token_hex(8), 0, 0

    def _end_epoch(self) -> None:
        with self._condition:
            self._epoch = ""
