# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from types import SimpleNamespace

import pytest

from controller.cookies import cookie
from controller.metrics import ControllerMetrics, SwitchMetrics
from controller.openflow.frames import STATS_FLOW, STATS_QUEUE, entry_count, flow_counters
from controller.pipeline import Table
from controller.session import Session
from controller.state import MS, Change, Desired, PollCompleted, SwitchState
from policy.desired import Policy
from store.totals import ENTRIES_DECODED, LOOP_SECONDS, RULES_CHANGED, SUM, VALUE, bound_text
from tests.unit.controller.networks import single
from tests.unit.controller.openflow.test_frames import flow_entry
from tests.unit.controller.test_session import Committed, Datapath, Told, barrier, come_to_rest

POLICY = Policy.from_document({"scheme": "mlfq-adaptive", "interval_ms": 100, "window_ms": 500})


@pytest.fixture
def everybody():
    return ControllerMetrics()


@pytest.fixture
def session(everybody):
    state = SwitchState("s1", Desired(single(), 3, POLICY))
    session = Session(Datapath(), state, Told(), 9, SwitchMetrics(everybody))
    come_to_rest(session)
    return session


def counted(everybody):
    """Metric and part → value."""
    return {(metric, part): value for (metric, _, part), value in everybody.tally.take().items()}


def poll_until(session, operation, now_ns):
    """Answer what is asked with nothing until the next question is such an operation; when it was asked."""
    while not isinstance(doing := session._under_way and session._under_way.operation, operation):
        if doing is not None:
            kind = STATS_QUEUE if type(doing).__name__ == "PollQueues" else STATS_FLOW
            session.stats(now_ns, session.datapath.sent[-1][-1].xid, kind, b"")
        else:
            now_ns += 10 * MS
            session.advance(now_ns)
    return now_ns


def test_the_loop_ends_with_the_counters_where_no_rule_follows(session, everybody):
    everybody.tally.take()
    asked_ns = poll_until(session, PollCompleted, 0)
    everybody.tally.take()
    session.stats(
        asked_ns + 7 * MS,
        session.datapath.sent[-1][-1].xid,
        STATS_FLOW,
        flow_entry(cookie(Table.COMPLETED, 1, 1), 1),
    )
    found = counted(everybody)
    assert found[LOOP_SECONDS.name, SUM] == pytest.approx(0.007)
    assert found[LOOP_SECONDS.name, bound_text(0.01)] == 1
    assert found[ENTRIES_DECODED.name, VALUE] == 1


def test_the_loop_ends_with_the_acknowledgement_where_rules_follow(session, everybody):
    asked_ns = poll_until(session, PollCompleted, 0)
    everybody.tally.take()
    session.state.want(Desired(single(), 4, Policy.from_document({"scheme": "mlfq-adaptive", "queues": 3})))
    session.stats(asked_ns + 3 * MS, session.datapath.sent[-1][-1].xid, STATS_FLOW, b"")
    changes = session._under_way.operation
    assert isinstance(changes, Change)
    assert (LOOP_SECONDS.name, SUM) not in counted(everybody)
    session.bundle_answered(SimpleNamespace(type=Committed.type, bundle_id=session._bundle_id))
    while session._under_way and session._under_way.operation is changes:
        barrier(session, asked_ns + 20 * MS)
    found = counted(everybody)
    assert found[RULES_CHANGED.name, VALUE] == len(changes.changes) > 0
    assert found[LOOP_SECONDS.name, SUM] == pytest.approx(0.020)


def test_connected__by_switch(everybody):
    for switch in ("s1", "s2", "s1"):
        everybody.connected(switch)
    assert sorted(everybody.tally.take().values()) == [1, 2]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_entry_count__is_what_is_decoded(count):
    body = b"".join(
        flow_entry(cookie(Table.COMPLETED, 1, code), 3, instructions=b"\0" * (code % 2 * 8))
        for code in range(count)
    )
    assert entry_count(body) == len(flow_counters(body).cookies) == count
