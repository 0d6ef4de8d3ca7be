# SPDX-License-Identifier: Apache-2.0
"""Alerts, their rules, and the messages about them that wait for a webhook.

One transaction stores the new state of an alert, its event and its message. So a process that dies loses none of
them, and the one that follows does not report a change again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, select, update

from sluice.policy.alert_rules import AlertRule, rules_from
from sluice.policy.alerts import Alert, Change
from sluice.policy.errors import FieldError
from sluice.store.connections import insert_for, reading
from sluice.store.observed import note_event
from sluice.store.schema import alert_rules, alerts, webhook_queue

MOST_WAITING = 256
"""The most messages that wait for the webhook. Beyond them, the oldest are dropped."""
FIRING_EVENT, RESOLVED_EVENT, DROPPED_EVENT = "alert-firing", "alert-resolved", "webhook-dropped"


@dataclass(frozen=True)
class Message:
    """A message that waits for the webhook."""

    id: int
    document: Mapping[str, Any]
    attempts: int
    due_s: float
    """Reading of the store's clock before which it is not sent again."""
    problem: str
    """Why the last attempt failed; empty before the first."""


def all_alerts(engine: Engine) -> dict[tuple[str, str], Alert]:
    """Return the alerts that are not ok, by rule and subject."""
    with reading(engine) as connection:
        rows = connection.execute(select(alerts).order_by(alerts.c.rule, alerts.c.subject)).all()
    found = (Alert(**row._mapping) for row in rows)
    return {alert.key: alert for alert in found}


def put_changes(
    engine: Engine, changes: Iterable[Change], messages: Sequence[Mapping[str, Any]], now_s: float
) -> int:
    """Store the changes, an event for each alert that fires or resolves, and the messages about them.

    `now_s`: reading of the store's clock. Returns how many messages were dropped because too many wait.
    """
    with engine.begin() as connection:
        for change in changes:
            _put(connection, change)
        if messages:
            rows = [
                {"document": document, "attempts": 0, "due_s": now_s, "problem": ""} for document in messages
            ]
            connection.execute(webhook_queue.insert(), rows)
        return _drop_oldest(connection)


def _put(connection: Connection, change: Change) -> None:
    for alert in (change.before, change.after):
        if alert is not None:
            this = (alerts.c.rule == alert.rule) & (alerts.c.subject == alert.subject)
            connection.execute(delete(alerts).where(this))
    if change.after is not None:
        connection.execute(alerts.insert().values(**vars(change.after)))
    about = change.after or change.before
    if about is not None and (change.is_firing or change.is_resolved):
        document = {"alert": about.rule, "subject": about.subject, "reason": about.reason}
        kind = FIRING_EVENT if change.is_firing else RESOLVED_EVENT
        note_event(connection, kind, {key: value for key, value in document.items() if value})


def _drop_oldest(connection: Connection) -> int:
    waiting = connection.execute(select(func.count()).select_from(webhook_queue)).scalar_one()
    if waiting <= MOST_WAITING:
        return 0
    oldest = select(webhook_queue.c.id).order_by(webhook_queue.c.id).limit(waiting - MOST_WAITING)
    ids = connection.execute(oldest).scalars().all()
    connection.execute(delete(webhook_queue).where(webhook_queue.c.id.in_(ids)))
    note_event(
        connection,
        DROPPED_EVENT,
        {"messages": len(ids), "reason": f"more than {MOST_WAITING} wait for the webhook"},
    )
    return len(ids)


# ── The queue of the webhook ───────────────────────────────────────────────────────────────────────────────────────


def next_message(engine: Engine) -> Message | None:
    """Return the oldest message. The others wait for it, so that the receiver gets them in order."""
    with reading(engine) as connection:
        row = connection.execute(select(webhook_queue).order_by(webhook_queue.c.id).limit(1)).first()
    return Message(**row._mapping) if row else None


def note_attempt(engine: Engine, message: Message, due_s: float) -> None:
    """Note that the message is being sent, and that it is due again at `due_s` unless it is deleted before."""
    with engine.begin() as connection:
        values = {"attempts": message.attempts + 1, "due_s": due_s}
        connection.execute(update(webhook_queue).where(webhook_queue.c.id == message.id).values(**values))


def note_problem(engine: Engine, message: Message, problem: str) -> None:
    """Note why an attempt failed."""
    with engine.begin() as connection:
        row = update(webhook_queue).where(webhook_queue.c.id == message.id)
        connection.execute(row.values(problem=problem))


def forget_message(engine: Engine, message: Message, dropped: str = "") -> None:
    """Delete a message that the receiver has accepted, or that is given up because of `dropped`."""
    with engine.begin() as connection:
        connection.execute(delete(webhook_queue).where(webhook_queue.c.id == message.id))
        if dropped:
            note_event(connection, DROPPED_EVENT, {"messages": 1, "reason": dropped})


def forget_messages(engine: Engine) -> None:
    """Delete all messages, because there is no webhook."""
    with engine.begin() as connection:
        connection.execute(delete(webhook_queue))


def waiting_messages(engine: Engine) -> int:
    with reading(engine) as connection:
        return connection.execute(select(func.count()).select_from(webhook_queue)).scalar_one()


# ── Rules ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def stored_rules(engine: Engine) -> tuple[AlertRule, ...] | None:
    """Return the rules that the API has put in place of the configuration's.

    None if there are none, or if another version of Sluice stored rules that this one does not accept.
    """
    with reading(engine) as connection:
        document = connection.execute(select(alert_rules.c.document)).scalar()
    try:
        return None if document is None else rules_from("rules", document)
    except FieldError:
        return None


def put_rules(engine: Engine, rules: Iterable[AlertRule], author: str) -> None:
    """Put these rules in place of the configuration's."""
    document = [rule.to_document() for rule in rules]
    values = {"document": document, "author": author, "created_at": time.time()}
    with engine.begin() as connection:
        row = insert_for(connection, alert_rules).values(id=1, **values)
        connection.execute(row.on_conflict_do_update(index_elements=["id"], set_=values))
        note_event(connection, "alert-rules-changed", {"by": author, "rules": len(document)})


def forget_rules(engine: Engine, author: str) -> None:
    """Put the configuration's rules in force again."""
    with engine.begin() as connection:
        if connection.execute(delete(alert_rules)).rowcount:
            note_event(connection, "alert-rules-changed", {"by": author, "from": "configuration"})
