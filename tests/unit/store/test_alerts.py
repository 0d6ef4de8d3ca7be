# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import Engine, update
from sqlalchemy.exc import StatementError

from sluice.policy.alert_rules import DEFAULT_RULES
from sluice.policy.alerts import Alert, Change, State
from sluice.store.alerts import (
    DROPPED_EVENT,
    FIRING_EVENT,
    MOST_WAITING,
    RESOLVED_EVENT,
    all_alerts,
    forget_message,
    forget_rules,
    next_message,
    note_attempt,
    note_problem,
    put_changes,
    put_rules,
    stored_rules,
    waiting_messages,
)
from sluice.store.observed import newest_events
from sluice.store.schema import alert_rules

PENDING = Alert("m", "h1", State.PENDING, 5.0, 1e9, None, None, 5.0, 0.2, 90, "much", "less")
FIRING = replace(PENDING, state=State.FIRING, fired_at=1e9)
RESOLVED = replace(FIRING, state=State.RESOLVED, reason="little")


def kinds(engine: Engine) -> list[str]:
    return [event["kind"] for event in newest_events(engine, 9)]


def test_changes__states_with_their_events(engine: Engine) -> None:
    put_changes(engine, [Change(None, PENDING)], [], 5.0)
    assert all_alerts(engine) == {("m", "h1"): PENDING}
    assert kinds(engine) == []
    put_changes(engine, [Change(PENDING, FIRING)], [], 6.0)
    assert all_alerts(engine) == {("m", "h1"): FIRING}
    put_changes(engine, [Change(FIRING, RESOLVED)], [], 7.0)
    put_changes(engine, [Change(RESOLVED, None)], [], 8.0)
    assert all_alerts(engine) == {}
    assert kinds(engine) == [FIRING_EVENT, RESOLVED_EVENT]
    (firing, resolved) = newest_events(engine, 2)
    assert firing["document"] == {"alert": "m", "subject": "h1", "reason": "much"}
    assert resolved["document"]["reason"] == "little"


def test_changes__all_of_them_or_none(engine: Engine) -> None:
    with pytest.raises((StatementError, TypeError)):
        put_changes(engine, [Change(None, FIRING)], [{"id": object()}], 5.0)
    assert all_alerts(engine) == {}
    assert kinds(engine) == []


def test_messages__in_order_until_they_are_accepted(engine: Engine) -> None:
    put_changes(engine, [], [{"id": "a"}, {"id": "b"}], 5.0)
    first = next_message(engine)
    assert first is not None
    assert (first.document, first.attempts, first.due_s) == ({"id": "a"}, 0, 5.0)
    note_attempt(engine, first, 9.0)
    note_problem(engine, first, "no answer")
    again = next_message(engine)
    assert again is not None
    assert (again.document, again.attempts, again.due_s, again.problem) == ({"id": "a"}, 1, 9.0, "no answer")
    forget_message(engine, first)
    second = next_message(engine)
    assert second is not None
    assert second.document == {"id": "b"}
    forget_message(engine, second, dropped="refused")
    assert next_message(engine) is None
    assert kinds(engine) == [DROPPED_EVENT]


def test_messages__beyond_the_bound_the_oldest_are_dropped(engine: Engine) -> None:
    assert put_changes(engine, [], [{"id": n} for n in range(MOST_WAITING)], 5.0) == 0
    assert put_changes(engine, [], [{"id": "x"}, {"id": "y"}], 5.0) == 2
    assert waiting_messages(engine) == MOST_WAITING
    oldest = next_message(engine)
    assert oldest is not None
    assert oldest.document == {"id": 2}
    assert kinds(engine) == [DROPPED_EVENT]


def test_rules__those_of_the_api_until_they_are_withdrawn(engine: Engine) -> None:
    assert stored_rules(engine) is None
    put_rules(engine, DEFAULT_RULES[:2], "ann")
    put_rules(engine, DEFAULT_RULES[:1], "ann")
    assert stored_rules(engine) == DEFAULT_RULES[:1]
    forget_rules(engine, "bob")
    assert stored_rules(engine) is None
    forget_rules(engine, "bob")
    assert kinds(engine) == ["alert-rules-changed"] * 3


def test_rules__those_of_another_version_of_sluice_do_not_count(engine: Engine) -> None:
    put_rules(engine, DEFAULT_RULES, "ann")
    with engine.begin() as connection:
        connection.execute(
            update(alert_rules).values(document=[{"name": "x", "figure": "of-a-later-version"}])
        )
    assert stored_rules(engine) is None
