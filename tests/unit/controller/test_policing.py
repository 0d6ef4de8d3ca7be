# SPDX-License-Identifier: Apache-2.0
"""From counters to verdicts: liars are found out; honest hosts are not accused, whatever they send."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.policing import (
    AGENTS_FOLLOW_NS,
    ALL_TAGS_EVERY,
    INGRESS_POLL_NS,
    LOOK_NS,
    LOW_TAGS,
    MOST_WATCHED,
    WITNESS_POLL_NS,
    FlowSeen,
    Policing,
    Restored,
)
from dataplane import laws_cffi
from policy import tags
from policy.desired import Policy
from policy.framing import FRAME_BYTES, HEADER_BYTES, MSS_BYTES
from policy.graph import Port
from policy.sanctions import FIRST_TERM_NS, WATCH_NS, Demoted, Treatment

MS, S = 1_000_000, 1_000_000_000
PIAS = Policy.from_document({"scheme": "pias"})
PORTS = [
    Port("s1", 1, "h1", 0, 10**8, edge=True),
    Port("s1", 2, "s2", 1, 10**8),
    Port("s1", 3, "h3", 0, 10**8, edge=True),
]


class Switch:
    """Counts what is sent, tells of it `lag_ns` late, and asks the police at every poll."""

    def __init__(self, policy=PIAS, offences=None):
        self.police = Policing(PORTS, policy, offences or {})
        self.police.connected(0)
        self.ingress = np.zeros((2, 2, tags.TAG_COUNT), np.int64)
        self.flows = {}
        self.now_ns, self.next_poll_ns = 0, 0
        self.verdicts = []

    def send(self, number, name, tag, packets, frame_bytes=FRAME_BYTES):
        self.ingress[PORTS[number - 1].number // 2, :, tag] += (packets, packets * frame_bytes)
        if number in self.police.treatments:
            flow = self.flows.setdefault(
                (number, name), (self.now_ns, np.zeros((2, tags.TAG_COUNT), np.int64))
            )
            flow[1][:, tag] += (packets, packets * frame_bytes)

    def until(self, now_ns):
        """Time passes; the police look when it is time to."""
        while self.next_poll_ns <= now_ns:
            self.now_ns = self.next_poll_ns
            self.next_poll_ns += WITNESS_POLL_NS
            self.poll()
        self.now_ns = now_ns

    def look(self):
        all_tags = self.now_ns // INGRESS_POLL_NS % ALL_TAGS_EVERY == 0
        counts = self.ingress.copy()
        if not all_tags:
            counts[:, :, LOW_TAGS:] = 0
        self.police.ingress(self.now_ns, counts, all_tags=all_tags)

    def poll(self):
        if self.now_ns % INGRESS_POLL_NS == 0:
            self.look()
        seen = [
            FlowSeen(
                number,
                name,
                (self.now_ns - since_ns) / 1e9,
                dict(enumerate(zip(*counts.tolist(), strict=True))),
            )
            for (number, name), (since_ns, counts) in self.flows.items()
        ]
        self.police.witnessed(self.now_ns, seen)
        self.verdicts += self.police.verdicts()


def lie(switch, number=3, tag=1, until_ns=3 * S, rate_bps=10**8):
    """One flow, always under the same tag, at a link's rate."""
    while switch.now_ns < until_ns:
        switch.send(number, "TCP a > b", tag, max(1, rate_bps // 8 // FRAME_BYTES // 100))
        switch.until(switch.now_ns + 10 * MS)


def test_a_liar_is_named_within_a_second_and_a_half():
    switch = Switch()
    lie(switch, until_ns=1500 * MS)
    (verdict,) = switch.verdicts
    assert isinstance(verdict, Demoted)
    assert (verdict.port, verdict.host, verdict.tag, verdict.flow) == ("s1:3", "h3", 1, "TCP a > b")
    assert verdict.sent_bytes > verdict.limit_bytes
    assert switch.police.treatments == {3: Treatment.DEMOTED}


def test_it_is_restored_when_it_stops_and_free_after_that():
    switch = Switch()
    lie(switch)
    switch.until(switch.now_ns + FIRST_TERM_NS + 3 * S)
    assert [type(verdict) for verdict in switch.verdicts] == [Demoted, Restored]
    assert switch.police.treatments == {3: Treatment.WATCHED}
    switch.until(switch.now_ns + WATCH_NS)
    assert switch.police.treatments == {}


def test_it_stays_demoted_while_it_goes_on():
    switch = Switch()
    lie(switch, until_ns=30 * S)
    assert [type(verdict) for verdict in switch.verdicts] == [Demoted]


def test_a_flow_that_was_honest_for_long_is_found_out_as_fast():
    switch = Switch()
    switch.police._conduct[3] = switch.police._conduct[3].suspected(0)
    while switch.now_ns < 60 * S:
        switch.police._conduct[3] = switch.police._conduct[3].suspected(switch.now_ns)
        switch.send(3, "TCP a > b", 1, 1)
        switch.until(switch.now_ns + 20 * MS)
    assert not switch.verdicts
    lie(switch, until_ns=61 * S)
    assert len(switch.verdicts) == 1


def test_what_the_store_knows_goes_on_and_its_term_begins_anew():
    switch = Switch(offences={"s1:3": 2})
    assert switch.police.treatments == {3: Treatment.DEMOTED}
    switch.until(2 * FIRST_TERM_NS - INGRESS_POLL_NS)
    assert not switch.verdicts
    switch.until(2 * FIRST_TERM_NS + INGRESS_POLL_NS)
    assert [type(verdict) for verdict in switch.verdicts] == [Restored]


@pytest.mark.parametrize("document", [{"scheme": "tcp"}, {"scheme": "pias", "tag_burst": 0}])
def test_a_policy_that_polices_nobody_restores_at_once(document):
    switch = Switch()
    lie(switch)
    switch.police.adopt(Policy.from_document(document))
    assert isinstance(switch.police.verdicts()[0], Restored)
    assert switch.police.treatments == {}
    assert not switch.police.polices


def test_what_was_sent_while_nobody_was_policed_is_no_offence():
    """Neither by what the ingress has counted meanwhile, nor by a flow that the switch still knows from before."""
    switch = Switch()
    lie(switch)
    switch.police.adopt(Policy.from_document({"scheme": "pias", "tag_burst": 0}))
    switch.police.verdicts()
    switch.verdicts.clear()
    switch.police.witnessed(switch.now_ns, [])  # nobody asks the switch any more,
    switch.send(3, "TCP a > b", 1, 10**5)
    switch.now_ns = switch.next_poll_ns = 10 * S  # nor looks meanwhile
    switch.police.adopt(PIAS)
    switch.until(20 * S)
    assert not switch.verdicts
    assert switch.police.treatments == {}
    lie(switch, until_ns=21_500 * MS)
    assert [type(verdict) for verdict in switch.verdicts] == [Demoted]


def test_a_switch_without_hosts_is_not_asked():
    assert not Policing([PORTS[1]], PIAS, {}).polices


def test_a_longer_idle_gap_counts_once_the_agents_have_it():
    """Flows that begin every 2 ms were honest a moment ago."""
    switch = Switch(Policy.from_document({"scheme": "pias", "idle_gap_ms": 1}))
    switch.police.adopt(PIAS)
    while switch.now_ns < AGENTS_FOLLOW_NS:
        switch.send(3, "TCP a > b", 1, 2)
        switch.until(switch.now_ns + 2 * MS)
    assert not switch.verdicts
    while switch.now_ns < AGENTS_FOLLOW_NS + 3 * S:
        switch.send(3, "TCP a > b", 1, 2)
        switch.until(switch.now_ns + 2 * MS)
    assert len(switch.verdicts) == 1


def test_segmentation_offload_is_allowed_for():
    """Bursts of 64 KB under the tag of their first byte, one every 11 ms."""
    switch = Switch(Policy.from_document({"scheme": "pias", "tag_burst": "65536B"}))
    while switch.now_ns < 5 * S:
        switch.send(3, "TCP a > b", 1, 45)
        switch.until(switch.now_ns + 11 * MS)
    assert not switch.verdicts


def test_where_all_are_suspicious_the_worst_is_watched_first_and_everybody_in_turn():
    ports = [Port("s1", n, f"h{n}", 0, 10**9, edge=True) for n in range(1, 9)]
    police, counts, watched = Policing(ports, PIAS, {}), np.zeros((8, 2, tags.TAG_COUNT), np.int64), []
    police.connected(0)
    for poll in range(1, 200):
        counts = counts.copy()
        counts[:, :, 1] += (20_000, 20_000 * FRAME_BYTES)  # 4 times what is believed
        if poll > 100:
            counts[6, :, 1] += (60_000, 60_000 * FRAME_BYTES)
        police.ingress(poll * INGRESS_POLL_NS, counts)
        watched.append(set(police.treatments))
    assert all(len(now) <= MOST_WATCHED for now in watched)
    assert set().union(*watched[:50]) == set(range(1, 9))
    since = next(i for i, now in enumerate(watched[100:]) if 7 in now)
    assert since * INGRESS_POLL_NS <= LOOK_NS + INGRESS_POLL_NS


# ── Honest hosts ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def laws():
    return laws_cffi.load()


@st.composite
def traffic(draw):
    """Connections of one host: their messages (bytes, ns a segment, sent twice, pause in ns)."""
    message = st.tuples(
        st.one_of(st.integers(1, 3000), st.integers(1, 400_000)),
        st.sampled_from([0, 10_000, 120_000, 1_000_000]),
        st.booleans(),
        st.one_of(st.just(10 * MS + 1), st.integers(0, 60 * MS)),
    )
    return draw(st.lists(st.lists(message, min_size=1, max_size=60), min_size=1, max_size=6))


def packets_of(laws, name, messages):
    """(ns, name, tag, frame bytes), as the tagger has them."""
    state, now_ns, sent, found = laws.ffi.new("struct sl_tag_state *"), 1, 0, []
    for size, per_segment_ns, twice, pause_ns in messages:
        first = sent
        while sent < first + size:
            piece = min(MSS_BYTES, first + size - sent)
            for again in range(1 + twice):
                acked = sent - MSS_BYTES if sent > first or again else sent
                attained = laws.lib.sl_tag_segment(state, sent % 2**32, piece, acked % 2**32, now_ns, 10 * MS)
                found.append((now_ns, name, tags.attained_tag(attained), piece + HEADER_BYTES))
            sent += piece
            now_ns += per_segment_ns
        now_ns += pause_ns
    return found


@given(traffic(), st.integers(0, 700 * MS))
@settings(deadline=None, max_examples=60)
def test_honest_hosts_are_never_accused(laws, connections, lag_ns):
    """Whatever they send, watched from the first packet, by a switch whose counters come late and all at once."""
    packets = sorted(
        packet for i, messages in enumerate(connections) for packet in packets_of(laws, f"flow {i}", messages)
    )
    switch = Switch()
    switch.police._conduct[3] = switch.police._conduct[3].suspected(0)
    for now_ns, name, tag, frame_bytes in packets:
        counted_ns = now_ns if not lag_ns else -(-now_ns // lag_ns) * lag_ns
        switch.until(max(counted_ns, switch.now_ns))
        switch.send(3, name, tag, 1, frame_bytes)
    switch.until(switch.now_ns + S)
    assert not switch.verdicts


@pytest.mark.parametrize("size", [1448, 2400, 11_000, 100_000])
@pytest.mark.parametrize("lag_ns", [0, 500 * MS, 700 * MS])
def test_as_many_messages_as_a_connection_can_carry_are_honest(laws, size, lag_ns):
    """A message of that size after every idle gap, all of it sent twice: nobody honest sends more."""
    switch = Switch()
    switch.police._conduct[3] = switch.police._conduct[3].suspected(0)
    for now_ns, name, tag, frame_bytes in packets_of(laws, "a flow", [(size, 0, True, 10 * MS + 1)] * 300):
        counted_ns = now_ns if not lag_ns else -(-now_ns // lag_ns) * lag_ns
        switch.until(max(counted_ns, switch.now_ns))
        switch.send(3, name, tag, 1, frame_bytes)
    assert not switch.verdicts
