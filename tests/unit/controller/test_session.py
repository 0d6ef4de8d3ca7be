# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from controller.session import OPERATION_LIMIT_NS, Session
from controller.state import MS, Desired, SwitchState
from controller.wire import STATS_FLOW, STATS_GROUP_DESC
from policy.desired import Policy
from tests.unit.controller.networks import single
from tests.unit.controller.test_openflow import BARRIER, EXPERIMENTER, FakeDatapath, frames


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


@pytest.fixture
def session():
    policy = Policy.from_document({"scheme": "mlfq-adaptive"})
    state = SwitchState("s1", Desired(single(), 3, policy))
    return Session(Datapath(), state, Told())


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
    session.advance(0)
    answer_read(session)
    barrier(session)
    session.bundle_committed()
    barrier(session)


def test_reads_fills_commits_and_only_then_says_that_it_stands(session):
    session.advance(0)
    assert len(session.datapath.sent) == 1
    answer_read(session)
    filled = session.datapath.sent[1]
    assert filled[0].kind == EXPERIMENTER
    assert len(filled) > 300
    barrier(session)
    assert session._listener.news == []
    session.bundle_committed()
    barrier(session)
    assert session.state.version == 3
    assert len(session._listener.news) == 3


def test_one_operation_at_a_time(session):
    session.advance(0)
    session.advance(1000 * MS)
    assert len(session.datapath.sent) == 1


def test_the_answer_to_another_question_is_not_taken(session):
    session.advance(0)
    session.stats(0, 4711, STATS_FLOW, b"")
    session.barrier(0, 4711)
    assert len(session.datapath.sent) == 1
    answer_read(session)
    assert len(session.datapath.sent) == 2


def test_an_error_while_filling_discards_the_bundle_and_is_told_once(session):
    session.advance(0)
    answer_read(session)
    for frame in session.datapath.sent[1][1:4]:
        session.error(frame.xid, "no")
    barrier(session)
    (discard,) = session.datapath.sent[-1]
    assert discard.data[20:22] == b"\x00\x06"
    assert len(session._listener.refusals) == 1
    assert session.state.version is None
    assert not session.datapath.hung_up


def test_an_error_while_committing_leaves_the_version_unknown(session):
    session.advance(0)
    answer_read(session)
    barrier(session)
    session.error(session.datapath.sent[-1][0].xid, "no")
    barrier(session)
    assert session.state.version is None
    assert session._listener.news == []


def test_a_bundle_neither_committed_nor_refused_ends_the_connection(session):
    session.advance(0)
    answer_read(session)
    barrier(session)
    barrier(session)
    assert session.datapath.hung_up
    assert session.state.version is None


def test_no_answer_in_time_ends_the_connection(session):
    session.advance(0)
    session.advance(OPERATION_LIMIT_NS)
    assert not session.datapath.hung_up
    session.advance(OPERATION_LIMIT_NS + 1)
    assert session.datapath.hung_up


def test_an_error_instead_of_statistics_ends_the_connection(session):
    come_to_rest(session)
    polled = session.datapath.sent[-1][0]
    session.error(polled.xid, "no")
    assert session.datapath.hung_up


def test_an_unreadable_answer_ends_the_connection(session):
    session.advance(0)
    groups, rules = session.datapath.sent[-1]
    session.stats(0, groups.xid, STATS_GROUP_DESC, b"")
    session.stats(0, rules.xid, STATS_FLOW, b"\x00" * 56)
    assert session.datapath.hung_up


def test_an_error_about_nothing_of_this_operation_changes_nothing(session):
    come_to_rest(session)
    session.error(1, "late")
    assert session.state.version == 3
    assert session._listener.refusals == []
