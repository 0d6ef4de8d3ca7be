# SPDX-License-Identifier: Apache-2.0
"""A session with a switch, and what it counts."""

import pytest

from sluice.controller.openflow import answers
from sluice.controller.openflow.answers import ErrorReply, RoleReply, StatsReply
from sluice.controller.openflow.frames import MessageType, StatsType
from sluice.controller.policing.hosts import _Proof
from sluice.controller.policing.overlay import READ_FLOWS
from sluice.controller.session import OPERATION_LIMIT_NS, Session
from sluice.controller.state import COMPLETED, MS, RETRY_NS, Change, Desired, Operation, PollQueues
from sluice.controller.tables import Table, cookie
from sluice.policy.policing.limits import Breach
from sluice.policy.schema.desired import Policy
from sluice.store.totals import ENTRIES_DECODED, LOOP_SECONDS, RULES_CHANGED, SUM, VALUE, Tally, bound_text
from tests.fakes.openflow import TCP_FLOW, flow_entry, learned_entry
from tests.kit.networks import single
from tests.unit.controller.sessions import GENERATION, MASTER, PlayedSession

SLAVE = 3
EXPERIMENTER, BARRIER = MessageType.EXPERIMENTER, MessageType.BARRIER_REQUEST


@pytest.fixture
def played() -> PlayedSession:
    return PlayedSession(Policy.from_document({"scheme": "mlfq-adaptive"}))


def test_a_session_reads_fills_commits_and_then_reports_the_version(played: PlayedSession) -> None:
    played.become_master()
    assert len(played.sent) == 1
    played.answer_read()
    filled = played.sent[1]
    assert filled[0].kind == EXPERIMENTER
    assert len(filled) > 300
    played.barrier()
    assert played.listener.news == []
    played.take(answers.BundleReply(played.session._bundle_id, committed=True))
    played.barrier()
    assert played.state.version == 3
    assert len(played.listener.news) == 3


def test_the_answer_to_another_request_is_ignored(played: PlayedSession) -> None:
    played.become_master()
    played.take(StatsReply(4711, StatsType.FLOW, b""))
    played.take(answers.BarrierReply(4711))
    assert len(played.sent) == 1
    played.answer_read()
    assert len(played.sent) == 2


def test_an_error_while_filling_discards_the_bundle_and_is_reported_once(played: PlayedSession) -> None:
    played.become_master()
    played.answer_read()
    for frame in played.sent[1][1:4]:
        played.take(ErrorReply(frame.xid, "bad match"))
    played.barrier()
    (discard,) = played.sent[-1]
    assert discard.data[20:22] == b"\x00\x06"
    assert len(played.listener.refusals) == 1
    assert played.state.version is None
    assert not played.connection.hung_up


def test_an_error_while_committing_leaves_the_version_unknown(played: PlayedSession) -> None:
    played.become_master()
    played.answer_read()
    played.barrier()
    played.take(ErrorReply(played.sent[-1][0].xid, "bundle failed"))
    played.barrier()
    assert played.state.version is None
    assert played.listener.news == []


@pytest.mark.parametrize(
    "answer",
    [answers.BundleReply(4711, committed=True), answers.BundleReply(1, committed=False), None],
    ids=repr,
)
def test_a_bundle_that_is_neither_committed_nor_refused_ends_the_connection(
    played: PlayedSession, answer: answers.BundleReply | None
) -> None:
    played.become_master()
    played.answer_read()
    played.barrier()
    if answer is not None:
        played.take(answer)
    played.barrier()
    assert played.connection.hung_up
    assert played.state.version is None


def test_no_answer_in_time_ends_the_connection(played: PlayedSession) -> None:
    played.become_master()
    played.session.check_time(OPERATION_LIMIT_NS)
    assert not played.connection.hung_up
    played.session.check_time(OPERATION_LIMIT_NS + 1)
    assert played.connection.hung_up


def test_an_error_instead_of_statistics_ends_the_connection(played: PlayedSession) -> None:
    played.come_to_rest()
    played.session.advance(100 * MS)
    played.take(ErrorReply(played.sent[-1][0].xid, "bad request"))
    assert played.connection.hung_up


def test_an_unreadable_answer_ends_the_connection(played: PlayedSession) -> None:
    played.become_master()
    played.answer_read(flows=b"\x00" * 56)
    assert played.connection.hung_up


def test_answers_that_come_twice_or_late_are_taken_once(played: PlayedSession) -> None:
    """Statistics, barriers and roles: nothing is taken of an operation that has ended."""
    played.come_to_rest()
    played.session.advance(100 * MS)
    played.take(StatsReply(played.sent[-1][0].xid, StatsType.FLOW, b""), 100 * MS)
    polled = played.sent[-1][0]
    counters = flow_entry(cookie(Table.ENDS, 1, 9), 3)
    played.take(StatsReply(polled.xid, StatsType.FLOW, counters), 100 * MS)
    sent = len(played.sent)
    window = played.state._adaptation._window
    assert window._last is not None
    seen = window._last.copy()
    later = flow_entry(cookie(Table.ENDS, 1, 9), 99)
    played.take(StatsReply(polled.xid, StatsType.FLOW, later), 120 * MS)
    for frame in (frame for request in played.sent for frame in request):
        played.take(answers.BarrierReply(frame.xid), 120 * MS)
        played.take(RoleReply(frame.xid, SLAVE), 120 * MS)
    assert len(played.sent) == sent
    assert (window._last == seen).all()
    assert played.state.version == 3
    assert not played.connection.hung_up


# ── Roles ──────────────────────────────────────────────────────────────────────────────────────


def test_nothing_else_is_requested_before_the_switch_confirms_the_role(played: PlayedSession) -> None:
    played.session.advance(0)
    played.session.advance(1000 * MS)
    assert len(played.sent) == 1
    (request,) = played.sent[0]
    played.take(RoleReply(request.xid + 1, MASTER))
    assert len(played.sent) == 1
    played.take(RoleReply(request.xid, MASTER))
    assert len(played.sent) == 2


def test_a_switch_that_denies_mastership_is_reported_and_not_changed(played: PlayedSession) -> None:
    played.session.advance(0)
    played.take(ErrorReply(played.sent[0][0].xid, "stale", denies_mastership=True))
    assert played.listener.deposed
    assert played.listener.refusals == []
    assert len(played.sent) == 1


def test_a_switch_that_gets_another_master_while_a_bundle_is_filled(played: PlayedSession) -> None:
    played.become_master()
    played.answer_read()
    played.take(ErrorReply(played.sent[1][3].xid, "is slave", denies_mastership=True))
    assert played.listener.deposed
    assert played.listener.refusals == []


@pytest.mark.parametrize(("role", "deposed"), [(MASTER, False), (SLAVE, True)])
def test_a_role_status_reports_another_master_if_this_controller_is_a_slave(
    played: PlayedSession, role: int, deposed: bool
) -> None:
    played.come_to_rest()
    played.take(answers.RoleStatus(role))
    assert played.listener.deposed is deposed


def test_a_switch_without_roles_is_served_too(played: PlayedSession) -> None:
    played.session.advance(0)
    played.take(ErrorReply(played.sent[0][0].xid, "bad type"))
    assert len(played.sent) == 2


def test_a_role_other_than_the_requested_one_ends_the_connection(played: PlayedSession) -> None:
    played.session.advance(0)
    played.take(RoleReply(played.sent[0][0].xid, SLAVE))
    assert played.connection.hung_up


def test_a_filled_bundle_is_not_committed_while_the_lease_is_in_doubt(played: PlayedSession) -> None:
    played.become_master()
    played.answer_read()
    played.listener.leads = False
    played.barrier()
    played.session.check_time(10 * OPERATION_LIMIT_NS)
    played.session.advance(10 * OPERATION_LIMIT_NS)
    assert len(played.sent) == 2
    assert not played.connection.hung_up
    played.listener.leads = True
    played.session.advance(10 * OPERATION_LIMIT_NS)
    assert [frame.kind for frame in played.sent[2]] == [EXPERIMENTER, BARRIER]


def test_a_second_session_of_a_connection_uses_other_bundles(played: PlayedSession) -> None:
    """The switch may still hold a bundle that the first session has opened and not committed."""
    played.become_master()
    played.answer_read()
    first = played.session._bundle_id
    played.session = Session(played.connection, played.state, played.listener, GENERATION, Tally())
    played.state.connected(0)
    played.become_master()
    played.answer_read()
    assert played.session._bundle_id not in (0, first)


def test_a_switch_that_knows_no_meters_is_as_good_as_one_without_a_meter(played: PlayedSession) -> None:
    played.become_master()
    groups, features, meters, rules = played.sent[-1]
    played.take(StatsReply(groups.xid, StatsType.GROUP_DESC, b""))
    for frame in (features, meters):
        played.take(ErrorReply(frame.xid, "OFPET_BAD_REQUEST, OFPBRC_BAD_MULTIPART"))
    played.take(StatsReply(rules.xid, StatsType.FLOW, b""))
    played.commit()
    assert played.state.version == 3
    assert not played.policing.hosts.has_meters
    assert not played.listener.refusals


def test_a_refused_meter_is_reported_and_not_tried_again(played: PlayedSession) -> None:
    played.come_to_rest()
    played.policing.hosts._demote(0, 2, _Proof("TCP a > b", Breach(1, 2.0, 1.0), 1.0))
    played.session.advance(0)
    meter, barrier = played.sent[-1]
    assert (meter.kind, barrier.kind) == (MessageType.METER_MOD, MessageType.BARRIER_REQUEST)
    played.take(ErrorReply(meter.xid, "out of meters", denies_meter=True))
    played.barrier()
    assert played.listener.refusals == [("out of meters", "changing meters")]
    played.session.advance(RETRY_NS)
    played.answer_read()
    played.session.advance(RETRY_NS)
    assert MessageType.METER_MOD not in [frame.kind for frame in played.sent[-1]]
    played.commit()
    assert played.state.version == 3
    assert not played.connection.hung_up


# ── What a session counts ──────────────────────────────────────────────────────────────────────

POLICY = Policy.from_document({"scheme": "mlfq-adaptive", "interval_ms": 100, "window_ms": 500})
COUNTERS = flow_entry(cookie(Table.ENDS, 1, 1), 1)


@pytest.fixture
def tally() -> Tally:
    return Tally()


@pytest.fixture
def resting(tally: Tally) -> PlayedSession:
    session = PlayedSession(POLICY, tally)
    session.come_to_rest()
    return session


def taken(tally: Tally) -> dict[tuple[str, str], float]:
    """Return (metric, part) → the counts since the last call."""
    return {(metric, part): value for (metric, _, part), value in tally.take().items()}


def operation_of(resting: PlayedSession) -> object:
    """Return the running operation, None if there is none."""
    transaction = resting.session._transaction
    return transaction.operation if transaction is not None else None


def poll_until(resting: PlayedSession, wanted: Operation, now_ns: int) -> int:
    """Answer polls with nothing until this operation runs. Returns when it began."""
    while (operation := operation_of(resting)) != wanted:
        if operation is None:
            now_ns += 10 * MS
            resting.session.advance(now_ns)
        else:
            assert not isinstance(operation, Change)
            stats = StatsType.QUEUE if isinstance(operation, PollQueues) else StatsType.FLOW
            resting.answer_poll(b"", now_ns, stats)
    return now_ns


def test_the_loop_ends_with_the_counters_if_no_rule_follows(resting: PlayedSession, tally: Tally) -> None:
    requested_ns = poll_until(resting, COMPLETED, 0)
    taken(tally)
    resting.answer_poll(COUNTERS, requested_ns + 7 * MS)
    found = taken(tally)
    assert found[LOOP_SECONDS.name, SUM] == pytest.approx(0.007)
    assert found[LOOP_SECONDS.name, bound_text(0.01)] == 1
    assert found[ENTRIES_DECODED.name, VALUE] == 1


def test_the_loop_ends_with_the_acknowledgement_if_rules_follow(resting: PlayedSession, tally: Tally) -> None:
    requested_ns = poll_until(resting, COMPLETED, 0)
    taken(tally)
    other = Policy.from_document({"scheme": "mlfq-adaptive", "queues": 3})
    resting.state.want(Desired(single(), 4, other))
    resting.answer_poll(b"", requested_ns + 3 * MS)
    change = operation_of(resting)
    assert isinstance(change, Change)
    assert (LOOP_SECONDS.name, SUM) not in taken(tally)
    resting.commit(requested_ns + 20 * MS)
    found = taken(tally)
    assert found[RULES_CHANGED.name, VALUE] == len(change.changes) > 0
    assert found[LOOP_SECONDS.name, SUM] == pytest.approx(0.020)


def test_entries_about_learned_flows_are_counted_too(resting: PlayedSession, tally: Tally) -> None:
    """Once a port is watched, its flows are polled four times a second."""
    hosts = resting.policing.hosts
    hosts._state_of[1] = hosts._state_of[1].suspected(0)
    resting.session.advance(10 * MS)
    assert isinstance(operation_of(resting), Change)
    resting.commit(10 * MS)
    polled_ns = poll_until(resting, READ_FLOWS, 0)
    taken(tally)
    resting.answer_poll(learned_entry(1, 1, 3, 300, TCP_FLOW) * 2, polled_ns)
    assert taken(tally)[ENTRIES_DECODED.name, VALUE] == 2
