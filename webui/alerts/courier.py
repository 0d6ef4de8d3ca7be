# SPDX-License-Identifier: Apache-2.0
"""The thread that sends the messages about alerts, the oldest first, and tries again until the receiver accepts them.

Before each attempt it stores when the next one is due. So a message survives the process, and a receiver that is away
is not asked more often after a restart. If the process dies between the receiver's answer and the next write, the
receiver gets the message again, with the same id.
"""

from __future__ import annotations

import logging
import threading

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from sluice.store import ages
from sluice.store.alerts import Message, forget_message, next_message, note_attempt, note_problem
from sluice.store.lease import Deposed
from sluice.store.totals import WEBHOOK_MESSAGES, Tally
from sluice.webui.alerts.duty import Duty
from sluice.webui.alerts.webhook import NotDelivered, Webhook
from sluice.webui.ingestion import Ingestion

log = logging.getLogger(__name__)

LOOK_S = 1.0
FIRST_WAIT_S = 2.0
LONGEST_WAIT_S = 300.0
MOST_ATTEMPTS = 300
"""About a day."""


def wait_s(attempts: int) -> float:
    """Return the time until the next attempt, after so many."""
    return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(attempts - 1, 20))


class Courier(threading.Thread):
    """Sends while this worker has the duty, until `stopping` is set."""

    def __init__(
        self,
        engine: Engine,
        webhook: Webhook,
        duty: Duty,
        ingestion: Ingestion,
        tally: Tally,
        stopping: threading.Event,
    ) -> None:
        super().__init__(name="webhook", daemon=True)
        self._engine, self._webhook, self._duty = engine, webhook, duty
        self._ingestion, self._tally, self._stopping = ingestion, tally, stopping
        self._wake = threading.Event()
        self._problem = ""
        """The last problem, so that the log has it once."""

    def wake(self) -> None:
        """There is a new message, or the process stops."""
        self._wake.set()

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                while not self._stopping.is_set() and self.turn():
                    pass
            except (SQLAlchemyError, Deposed) as error:
                log.debug("the next turn tries again: %s", error)
            self._wake.wait(LOOK_S)
            self._wake.clear()

    def turn(self) -> bool:
        """Send the oldest message if it is due. Return whether it is done with, so that the next one can go."""
        writing = self._duty.engine
        message = next_message(self._engine) if writing is not None else None
        now_s = ages.age_s(self._engine)
        if writing is None or message is None or message.due_s > now_s:
            return False
        with self._ingestion.alone():
            note_attempt(writing, message, now_s + wait_s(message.attempts + 1))
        try:
            self._webhook.post(message.document)
        except NotDelivered as problem:
            return self._failed(writing, message, problem)
        with self._ingestion.alone():
            forget_message(writing, message)
        self._tally.count(WEBHOOK_MESSAGES, result="delivered")
        self._problem = ""
        return True

    def _failed(self, writing: Engine, message: Message, problem: NotDelivered) -> bool:
        """Note a failed attempt. Return whether the message is given up."""
        gives_up = problem.is_final or message.attempts + 1 >= MOST_ATTEMPTS
        if str(problem) != self._problem:
            log.warning("webhook: %s; %s", problem, "the message is dropped" if gives_up else "trying again")
        self._problem = str(problem)
        with self._ingestion.alone():
            if gives_up:
                forget_message(writing, message, dropped=str(problem))
            else:
                note_problem(writing, message, str(problem))
        self._tally.count(WEBHOOK_MESSAGES, result="dropped" if gives_up else "failed")
        return gives_up
