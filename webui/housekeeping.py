# SPDX-License-Identifier: Apache-2.0
"""A web worker's background tasks: keeping the store's clock, deleting old rows, adding its counts to
the totals, making partitions ahead of need, writing the event log."""

from __future__ import annotations

import logging
import threading
import time

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from sluice.store import ages
from sluice.store.failures import probe
from sluice.store.partitions import make_ahead
from sluice.store.retention import STEP_ROWS_POSTGRESQL, Retention, forget_some
from sluice.store.totals import Tally, flush
from sluice.webui.event_log import EventLog
from sluice.webui.ingestion import Ingestion

log = logging.getLogger(__name__)

EVERY_S = 0.5
FORGET_EVERY_S = 10.0
CLOCK_EVERY_S = 1.0
REST_S = 0.02
"""The pause between two transactions that delete rows: other writers go first."""


class Housekeeping(threading.Thread):
    """Runs until `stopping` is set. While the store fails, it tries again each turn and logs the
    failure once."""

    def __init__(
        self,
        engine: Engine,
        tally: Tally,
        ingestion: Ingestion,
        stopping: threading.Event,
        retention: Retention,
        event_log: EventLog | None = None,
    ) -> None:
        super().__init__(name="housekeeping", daemon=True)
        self._engine = engine
        self._tally = tally
        self._ingestion = ingestion
        self._stopping = stopping
        self._retention = retention
        self._event_log = event_log
        self._forget_due = self._clock_due = time.monotonic()
        self._away = False

    def run(self) -> None:
        while not self._stopping.wait(EVERY_S):
            self.turn()
        self.turn()
        if self._event_log:
            self._event_log.close()

    def turn(self) -> None:
        """Do every task that is due."""
        try:
            with self._ingestion.alone():
                if time.monotonic() >= self._clock_due:
                    probe(self._engine)
                    self._clock_due = time.monotonic() + CLOCK_EVERY_S
                flush(self._engine, self._tally)
            if self._engine.dialect.name == "postgresql":
                make_ahead(self._engine)
            if self._event_log:
                self._event_log.write_new()
            if time.monotonic() >= self._forget_due and not self._stopping.is_set():
                self._forget()
                self._forget_due = time.monotonic() + FORGET_EVERY_S
        except SQLAlchemyError as error:
            if not self._away:
                log.warning("the store does not answer; the next turn tries again: %s", error)
            self._away = True
        except OSError as error:
            if not self._away:
                log.error("cannot write the event log; the next turn tries again: %s", error)
            self._away = True
        else:
            self._away = False

    def _forget(self) -> None:
        while self._forget_some() and not self._stopping.wait(REST_S):
            pass

    def _forget_some(self) -> int:
        age_s = ages.age_s(self._engine)
        if self._engine.dialect.name == "postgresql":
            return forget_some(self._engine, self._retention, age_s, STEP_ROWS_POSTGRESQL)
        with self._ingestion.alone():
            return forget_some(self._engine, self._retention, age_s)
