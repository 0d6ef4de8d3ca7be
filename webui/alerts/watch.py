# SPDX-License-Identifier: Apache-2.0
"""The thread that judges the rules every TURN_S, in one web worker, and stores what changes."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from sluice.policy.alerts import Alert, applied, changes, restarted
from sluice.store import ages
from sluice.store.alerts import all_alerts, forget_messages, put_changes, waiting_messages
from sluice.store.lease import Deposed
from sluice.store.observed import all_agents
from sluice.store.totals import WEBHOOK_MESSAGES, Tally
from sluice.webui.alerts.courier import Courier
from sluice.webui.alerts.documents import messages_of
from sluice.webui.alerts.duty import Duty
from sluice.webui.alerts.findings import findings
from sluice.webui.alerts.settings import AlertSettings, rules_in_force
from sluice.webui.ingestion import Ingestion
from sluice.webui.recent import RecentFlows
from sluice.webui.validity import flaws_now

log = logging.getLogger(__name__)

TURN_S = 2.0


class AlertWatch(threading.Thread):
    """Watches while this worker has the duty, until `stopping` is set."""

    def __init__(
        self,
        engine: Engine,
        recent: RecentFlows,
        ingestion: Ingestion,
        tally: Tally,
        stopping: threading.Event,
        settings: AlertSettings,
    ) -> None:
        super().__init__(name="alerts", daemon=True)
        self._engine, self._recent, self._ingestion = engine, recent, ingestion
        self._tally, self._stopping, self._settings = tally, stopping, settings
        self.duty = Duty(engine)
        self._alerts: dict[tuple[str, str], Alert] | None = None
        """What the store has; None until this worker has read it."""
        self._trouble = ""
        self.courier: Courier | None = None
        if settings.webhook is not None:
            self.courier = Courier(engine, settings.webhook, self.duty, ingestion, tally, stopping)

    def run(self) -> None:
        if self.courier is not None:
            self.courier.start()
        while not self._stopping.wait(TURN_S):
            self.turn()
        with suppress(SQLAlchemyError), self._ingestion.alone():
            self.duty.release()

    def turn(self) -> None:
        """Look once. While the store fails, the states stay, and the failure is logged once."""
        try:
            self._look()
            self._trouble = ""
        except Deposed:
            self.duty.lose()
            self._alerts = None
        except SQLAlchemyError as error:
            self._alerts = None
            self._note(f"the store does not answer: {error}")
        except Exception as error:
            # A defect in one rule must not end the watch. The log has it once.
            self._note(repr(error), traceback=True)

    def _note(self, trouble: str, *, traceback: bool = False) -> None:
        if trouble != self._trouble:
            log.warning("alerts are not judged; the next turn tries again: %s", trouble, exc_info=traceback)
        self._trouble = trouble

    def _look(self) -> None:
        with self._ingestion.alone():
            self.duty.step(time.monotonic())
        writing = self.duty.engine
        if writing is None:
            self._alerts = None
            return
        now, now_s = time.time(), ages.age_s(self._engine)
        if self._alerts is None:
            self._begin(writing, now_s)
        self._judge(writing, now, now_s)

    def _begin(self, writing: Engine, now_s: float) -> None:
        """Continue with what the store has."""
        stored = all_alerts(self._engine)
        self._alerts = {key: restarted(alert, now_s) for key, alert in stored.items()}
        if self._settings.webhook is None and waiting_messages(self._engine):
            with self._ingestion.alone():
                forget_messages(writing)

    def _judge(self, writing: Engine, now: float, now_s: float) -> None:
        assert self._alerts is not None
        rules = rules_in_force(self._engine, self._settings)
        found = findings(
            rules,
            self._recent.since,
            all_agents(self._engine),
            flaws_now(self._engine, now_s),
            now=now,
            age_s=now_s,
        )
        steps = changes(self._alerts, found, now_s, now)
        if not steps:
            return
        messages = messages_of(steps, rules, now) if self._settings.webhook else []
        with self._ingestion.alone():
            dropped = put_changes(writing, steps, messages, now_s)
        if dropped:
            self._tally.count(WEBHOOK_MESSAGES, dropped, result="dropped")
        if messages and self.courier is not None:
            self.courier.wake()
        self._alerts = applied(self._alerts, steps)
