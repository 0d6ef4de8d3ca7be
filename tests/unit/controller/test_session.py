# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from controller.cookies import cookie
from controller.openflow.frames import STATS_FLOW, STATS_GROUP_DESC
from controller.pipeline import Table
from controller.session import OPERATION_LIMIT_NS, Session
from controller.state import MS, Desired, SwitchState
from policy.desired import Policy
from tests.unit.controller.networks import single
from tests.unit.controller.openflow.test_change import BARRIER, EXPERIMENTER, FakeDatapath, frames
from tests.unit.controller.openflow.test_frames import flow_entry


class Datapath(FakeDatapath):
    def __init__(self):
        super().__init__()
        self.sent, self.hung_up = [], False

    def send(self, data):
        self.sent.append(frames(data))

    def hang_up(self):
        self.hung_up = True


class Told:
    """What the session has told its listener."""

    def __init__(self):
        self.news, self.refusals = [], []

    def thresholds_in_force(self, state, news):
        self.news += news

    def queues_counted(self, state, counters):
        pass

    def refused(self, state, error, subject):
        self.refusals.append((error, subject))

    def another_is_master(self, state):
        self.deposed = True

    def may_act(self, now_ns):
        return self.leads

    leads, deposed = True, False


class Error:
    """An error message as os-ken gives it."""

    type, code = 4, 9  # OFPET_BAD_MATCH, OFPBMC_BAD_PREREQ

    def __init__(self, xid):
        self.xid = xid


class IsSlave(Error):
    type, code = 1, 10


class Stale(Error):
    type, code = 11, 0


class NoRoles(Error):
    type, code = 1, 1


class Committed:
    type, bundle_id = 5, 1


@pytest.fixture
def session():
    policy = Policy.from_document({"scheme": "mlfq-adaptive"})
    state = SwitchState("s1", Desired(single(), 3, policy))
    return Session(Datapath(), state, Told(), generation=9)


def become_master(session, now_ns=0):
    session.advance(now_ns)
    (asked,) = session.datapath.sent[-1]
    assert asked.data[8:] == b"\0\0\0\x02\0\0\0\0" + (9).to_bytes(8, "big")
    session.role(now_ns, asked.xid, 2)
    del session.datapath.sent[0]


def answer_read(session, now_ns=0):
    """An empty switch says that it is empty."""
    groups, rules = session.datapath.sent[-1]
    session.stats(now_ns, groups.xid, STATS_GROUP_DESC, b"")
    session.stats(now_ns, rules.xid, STATS_FLOW, b"")


def barrier(session, now_ns=0):
    last = session.datapath.sent[-1][-1]
    assert last.kind == BARRIER
    session.barrier(now_ns, last.xid)


def come_to_rest(session):
    become_master(session)
    answer_read(session)
    barrier(session)
    session.bundle_answered(Committed)
    barrier(session)


def test_reads_fills_commits_and_only_then_says_that_it_stands(session):
    become_master(session)
    assert len(session.datapath.sent) == 1
    answer_read(session)
    filled = session.datapath.sent[1]
    assert filled[0].kind == EXPERIMENTER
    assert len(filled) > 300
    barrier(session)
    assert session._listener.news == []
    session.bundle_answered(Committed)
    barrier(session)
    assert session.state.version == 3
    assert len(session._listener.news) == 3


def test_one_operation_at_a_time(session):
    become_master(session)
    session.advance(1000 * MS)
    assert len(session.datapath.sent) == 1


def test_the_answer_to_another_question_is_not_taken(session):
    become_master(session)
    session.stats(0, 4711, STATS_FLOW, b"")
    session.barrier(0, 4711)
    assert len(session.datapath.sent) == 1
    answer_read(session)
    assert len(session.datapath.sent) == 2


def test_an_error_while_filling_discards_the_bundle_and_is_told_once(session):
    become_master(session)
    answer_read(session)
    for frame in session.datapath.sent[1][1:4]:
        session.error(0, Error(frame.xid))
    barrier(session)
    (discard,) = session.datapath.sent[-1]
    assert discard.data[20:22] == b"\x00\x06"
    assert len(session._listener.refusals) == 1
    assert session.state.version is None
    assert not session.datapath.hung_up


def test_an_error_while_committing_leaves_the_version_unknown(session):
    become_master(session)
    answer_read(session)
    barrier(session)
    session.error(0, Error(session.datapath.sent[-1][0].xid))
    barrier(session)
    assert session.state.version is None
    assert session._listener.news == []


def test_a_bundle_neither_committed_nor_refused_ends_the_connection(session):
    become_master(session)
    answer_read(session)
    barrier(session)
    barrier(session)
    assert session.datapath.hung_up
    assert session.state.version is None


def test_no_answer_in_time_ends_the_connection(session):
    become_master(session)
    session.check_time(OPERATION_LIMIT_NS)
    assert not session.datapath.hung_up
    session.check_time(OPERATION_LIMIT_NS + 1)
    assert session.datapath.hung_up


def test_an_error_instead_of_statistics_ends_the_connection(session):
    come_to_rest(session)
    session.advance(100 * MS)
    polled = session.datapath.sent[-1][0]
    session.error(0, Error(polled.xid))
    assert session.datapath.hung_up


def test_an_unreadable_answer_ends_the_connection(session):
    become_master(session)
    groups, rules = session.datapath.sent[-1]
    session.stats(0, groups.xid, STATS_GROUP_DESC, b"")
    session.stats(0, rules.xid, STATS_FLOW, b"\x00" * 56)
    assert session.datapath.hung_up


def test_an_error_about_nothing_of_this_operation_changes_nothing(session):
    come_to_rest(session)
    session.error(0, Error(1))
    assert session.state.version == 3
    assert session._listener.refusals == []


# ── Roles ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_before_the_switch_takes_orders_nothing_else_is_asked_of_it(session):
    session.advance(0)
    session.advance(1000 * MS)
    assert len(session.datapath.sent) == 1
    (asked,) = session.datapath.sent[0]
    session.role(0, asked.xid + 1, 2)
    assert len(session.datapath.sent) == 1
    session.role(0, asked.xid, 2)
    assert len(session.datapath.sent) == 2


@pytest.mark.parametrize("error", [Stale, IsSlave])
def test_a_switch_with_a_newer_master_is_told_of_and_not_written_to(session, error):
    session.advance(0)
    session.error(0, error(session.datapath.sent[0][0].xid))
    assert session._listener.deposed
    assert session._listener.refusals == []
    assert len(session.datapath.sent) == 1


def test_a_switch_that_takes_another_master_while_a_bundle_is_filled(session):
    become_master(session)
    answer_read(session)
    session.error(0, IsSlave(session.datapath.sent[1][3].xid))
    assert session._listener.deposed
    assert session._listener.refusals == []


def test_a_switch_without_roles_is_served_all_the_same(session):
    session.advance(0)
    session.error(0, NoRoles(session.datapath.sent[0][0].xid))
    assert len(session.datapath.sent) == 2


def test_a_role_other_than_the_one_asked_for_ends_the_connection(session):
    session.advance(0)
    session.role(0, session.datapath.sent[0][0].xid, 3)
    assert session.datapath.hung_up


def test_a_bundle_that_is_filled_is_not_committed_while_the_lease_is_in_doubt(session):
    become_master(session)
    answer_read(session)
    session._listener.leads = False
    barrier(session)
    session.check_time(10 * OPERATION_LIMIT_NS)
    session.advance(10 * OPERATION_LIMIT_NS)
    assert len(session.datapath.sent) == 2
    assert not session.datapath.hung_up
    session._listener.leads = True
    session.advance(10 * OPERATION_LIMIT_NS)
    assert [frame.kind for frame in session.datapath.sent[2]] == [EXPERIMENTER, BARRIER]


def test_the_answer_about_another_bundle_commits_nothing(session):
    class Earlier(Committed):
        bundle_id = 4711

    become_master(session)
    answer_read(session)
    barrier(session)
    session.bundle_answered(Earlier)
    barrier(session)
    assert session.datapath.hung_up


def test_answers_that_come_twice_or_late_are_taken_once(session):
    """Statistics, barriers, roles: of a transaction that is over, nothing is taken."""
    come_to_rest(session)
    session.advance(100 * MS)
    polled = session.datapath.sent[-1][0]
    counters = flow_entry(cookie(Table.COMPLETED, 1, 9), 3)
    session.stats(100 * MS, polled.xid, STATS_FLOW, counters)
    sent = len(session.datapath.sent)
    seen = session.state._adaptation._window._last.copy()
    session.stats(120 * MS, polled.xid, STATS_FLOW, flow_entry(cookie(Table.COMPLETED, 1, 9), 99))
    for frame in (frame for request in session.datapath.sent for frame in request):
        session.barrier(120 * MS, frame.xid)
        session.role(120 * MS, frame.xid, 3)
    assert len(session.datapath.sent) == sent
    assert (session.state._adaptation._window._last == seen).all()
    assert session.state.version == 3
    assert not session.datapath.hung_up
