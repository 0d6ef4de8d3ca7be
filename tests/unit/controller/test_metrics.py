# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice.controller.openflow.frames import StatsType
from sluice.controller.policing.overlay import READ_FLOWS
from sluice.controller.rules import MatchValue
from sluice.controller.state import MS, Change, Desired, Operation, PollCompleted, PollQueues
from sluice.controller.tables import Table, cookie
from sluice.policy.schema.desired import Policy
from sluice.store.totals import ENTRIES_DECODED, LOOP_SECONDS, RULES_CHANGED, SUM, VALUE, Tally, bound_text
from tests.fakes.openflow import flow_entry, learned_entry
from tests.kit.networks import single
from tests.unit.controller.sessions import PlayedSession

POLICY = Policy.from_document({"scheme": "mlfq-adaptive", "interval_ms": 100, "window_ms": 500})
FLOW: dict[str, MatchValue] = {"ipv4_src": "10.0.0.2", "ipv4_dst": "10.0.0.1", "tcp_src": 4000, "tcp_dst": 80}
COUNTERS = flow_entry(cookie(Table.ENDS, 1, 1), 1)


@pytest.fixture
def tally() -> Tally:
    return Tally()


@pytest.fixture
def played(tally: Tally) -> PlayedSession:
    session = PlayedSession(POLICY, tally)
    session.come_to_rest()
    return session


def taken(tally: Tally) -> dict[tuple[str, str], float]:
    """Return (metric, part) → the counts since the last call."""
    return {(metric, part): value for (metric, _, part), value in tally.take().items()}


def operation_of(played: PlayedSession) -> object:
    """Return the running operation, None if there is none."""
    transaction = played.session._transaction
    return transaction.operation if transaction is not None else None


def poll_until(played: PlayedSession, wanted: Operation, now_ns: int) -> int:
    """Answer polls with nothing until this operation runs. Returns when it began."""
    while (operation := operation_of(played)) != wanted:
        if operation is None:
            now_ns += 10 * MS
            played.session.advance(now_ns)
        else:
            assert not isinstance(operation, Change)
            stats = StatsType.QUEUE if isinstance(operation, PollQueues) else StatsType.FLOW
            played.answer_poll(b"", now_ns, stats)
    return now_ns


def test_the_loop_ends_with_the_counters_if_no_rule_follows(played: PlayedSession, tally: Tally) -> None:
    requested_ns = poll_until(played, PollCompleted(), 0)
    taken(tally)
    played.answer_poll(COUNTERS, requested_ns + 7 * MS)
    found = taken(tally)
    assert found[LOOP_SECONDS.name, SUM] == pytest.approx(0.007)
    assert found[LOOP_SECONDS.name, bound_text(0.01)] == 1
    assert found[ENTRIES_DECODED.name, VALUE] == 1


def test_the_loop_ends_with_the_acknowledgement_if_rules_follow(played: PlayedSession, tally: Tally) -> None:
    requested_ns = poll_until(played, PollCompleted(), 0)
    taken(tally)
    other = Policy.from_document({"scheme": "mlfq-adaptive", "queues": 3})
    played.state.want(Desired(single(), 4, other))
    played.answer_poll(b"", requested_ns + 3 * MS)
    change = operation_of(played)
    assert isinstance(change, Change)
    assert (LOOP_SECONDS.name, SUM) not in taken(tally)
    played.commit(requested_ns + 20 * MS)
    found = taken(tally)
    assert found[RULES_CHANGED.name, VALUE] == len(change.changes) > 0
    assert found[LOOP_SECONDS.name, SUM] == pytest.approx(0.020)


def test_entries_about_learned_flows_are_counted_too(played: PlayedSession, tally: Tally) -> None:
    """Once a port is watched, its flows are polled four times a second."""
    hosts = played.policing.hosts
    hosts._state_of[1] = hosts._state_of[1].suspected(0)
    played.session.advance(10 * MS)
    assert isinstance(operation_of(played), Change)
    played.commit(10 * MS)
    polled_ns = poll_until(played, READ_FLOWS, 0)
    taken(tally)
    played.answer_poll(learned_entry(1, 1, 3, 300, FLOW) * 2, polled_ns)
    assert taken(tally)[ENTRIES_DECODED.name, VALUE] == 2
