# SPDX-License-Identifier: Apache-2.0
"""A thread of each web worker that frees the store from workers that are stopped amid a delivery.

It is a thread of its own, because housekeeping waits for this worker's delivery, and that may wait for the stopped one.
"""

from __future__ import annotations

import logging
import threading

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from sluice.store.connections import end_stuck_copies

log = logging.getLogger(__name__)

EVERY_S = 5.0


class StuckCopies(threading.Thread):
    """Looks every EVERY_S until `stopping` is set. It is of use with PostgreSQL only."""

    def __init__(self, engine: Engine, stopping: threading.Event) -> None:
        super().__init__(name="stuck-copies", daemon=True)
        self._engine, self._stopping = engine, stopping

    def run(self) -> None:
        while not self._stopping.wait(EVERY_S):
            self.turn()

    def turn(self) -> None:
        """Look once."""
        try:
            ended = end_stuck_copies(self._engine)
        except SQLAlchemyError:
            return  # housekeeping reports a store that does not answer
        if ended:
            log.warning("ended %d connections to the store that had stopped amid a delivery", ended)
