# SPDX-License-Identifier: Apache-2.0
"""From counters to verdicts: policing proves false tags and never accuses honest hosts."""

from types import ModuleType
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.controller.openflow.counters import FlowCounts, Ints
from sluice.controller.policing import hosts
from sluice.controller.policing.hosts import INGRESS_POLL_NS, HostPolicing
from sluice.dataplane import laws_cffi
from sluice.policy import tags
from sluice.policy.network.graph import Port
from sluice.policy.policing.limits import FIRST_TERM_NS, Demoted, Treatment
from sluice.policy.schema.desired import Policy
from sluice.policy.units import FRAME_BYTES, HEADER_BYTES, MSS_BYTES

MS, S = 1_000_000, 1_000_000_000
PIAS = Policy.from_document({"scheme": "pias"})
PORTS = [
    Port("s1", 1, "h1", 0, 10**8, edge=True),
    Port("s1", 2, "s2", 1, 10**8),
    Port("s1", 3, "h3", 0, 10**8, edge=True),
]


class Switch:
    """Counts what is sent, and passes the counters to the policing at every poll."""

    def __init__(self, policy: Policy = PIAS, offences: dict[str, int] | None = None) -> None:
        self.policing = HostPolicing(PORTS, policy, offences or {})
        self.policing.connected(0)
        self.ingress = np.zeros((2, 2, tags.TAG_COUNT), np.int64)
        self.flows: dict[tuple[int, str], tuple[int, Ints]] = {}
        """(port, flow) → (start time, packets and bytes by tag)."""
        self.now_ns, self.next_poll_ns = 0, 0
        self.verdicts: list[hosts.Verdict] = []

    def send(self, number: int, name: str, tag: int, packets: int, frame_bytes: int = FRAME_BYTES) -> None:
        self.ingress[PORTS[number - 1].number // 2, :, tag] += (packets, packets * frame_bytes)
        if number in self.policing.treatments:
            flow = self.flows.setdefault(
                (number, name), (self.now_ns, np.zeros((2, tags.TAG_COUNT), np.int64))
            )
            flow[1][:, tag] += (packets, packets * frame_bytes)

    def until(self, now_ns: int) -> None:
        """Let time pass, with a poll at each due time."""
        while self.next_poll_ns <= now_ns:
            self.now_ns = self.next_poll_ns
            self.next_poll_ns += hosts.LEARNED_POLL_NS
            self.poll()
        self.now_ns = now_ns

    def look(self) -> None:
        all_tags = self.now_ns // INGRESS_POLL_NS % hosts.ALL_TAGS_EVERY == 0
        counts = self.ingress.copy()
        if not all_tags:
            counts[:, :, hosts.LOW_TAGS :] = 0
        self.policing.observe_ingress(self.now_ns, counts, all_tags=all_tags)

    def poll(self) -> None:
        if self.now_ns % INGRESS_POLL_NS == 0:
            self.look()
        seen = [
            FlowCounts(
                number,
                name,
                (self.now_ns - since_ns) / 1e9,
                dict(enumerate(zip(*counts.tolist(), strict=True))),
            )
            for (number, name), (since_ns, counts) in self.flows.items()
        ]
        self.policing.observe_flows(self.now_ns, seen)
        self.verdicts += self.policing.take_verdicts()


def send_false_tags(switch: Switch, until_ns: int = 3 * S) -> None:
    """Send one flow from port 3, all of it under tag 1, at the rate of the link."""
    while switch.now_ns < until_ns:
        switch.send(3, "TCP a > b", 1, 10**8 // 8 // FRAME_BYTES // 100)
        switch.until(switch.now_ns + 10 * MS)


def test_it_stays_demoted_while_it_continues() -> None:
    switch = Switch()
    send_false_tags(switch, until_ns=30 * S)
    assert [type(verdict) for verdict in switch.verdicts] == [Demoted]


def test_a_flow_that_was_honest_for_long_is_proven_as_fast() -> None:
    switch = Switch()
    switch.policing._state_of[3] = switch.policing._state_of[3].suspected(0)
    while switch.now_ns < 60 * S:
        switch.policing._state_of[3] = switch.policing._state_of[3].suspected(switch.now_ns)
        switch.send(3, "TCP a > b", 1, 1)
        switch.until(switch.now_ns + 20 * MS)
    assert not switch.verdicts
    send_false_tags(switch, until_ns=61 * S)
    assert len(switch.verdicts) == 1


def test_an_offence_of_the_store_stays_and_its_term_begins_again() -> None:
    switch = Switch(offences={"s1:3": 2})
    assert switch.policing.treatments == {3: Treatment.DEMOTED}
    switch.until(2 * FIRST_TERM_NS - INGRESS_POLL_NS)
    assert not switch.verdicts
    switch.until(2 * FIRST_TERM_NS + INGRESS_POLL_NS)
    assert [type(verdict) for verdict in switch.verdicts] == [hosts.Restored]


def test_a_level_promises_nothing_about_bytes() -> None:
    switch = Switch()
    send_false_tags(switch)
    switch.policing.adopt(Policy.from_document({"scheme": "qjump", "epoch": "1ms"}))
    assert [type(verdict) for verdict in switch.policing.take_verdicts()] == [hosts.Restored]
    assert not switch.policing.polices


def test_packets_from_before_policing_are_no_offence() -> None:
    """Earlier packets count neither at the ingress nor in a learned flow."""
    switch = Switch()
    send_false_tags(switch)
    switch.policing.adopt(Policy.from_document({"scheme": "pias", "tag_burst": 0}))
    assert [type(verdict) for verdict in switch.policing.take_verdicts()] == [hosts.Restored]
    assert not switch.policing.polices
    switch.verdicts.clear()
    switch.policing.observe_flows(switch.now_ns, [])  # the last poll of flows
    switch.send(3, "TCP a > b", 1, 10**5)
    switch.now_ns = switch.next_poll_ns = 10 * S  # no poll in between
    switch.policing.adopt(PIAS)
    switch.until(20 * S)
    assert not switch.verdicts
    assert switch.policing.treatments == {}
    send_false_tags(switch, until_ns=21_500 * MS)
    assert [type(verdict) for verdict in switch.verdicts] == [Demoted]


def test_a_longer_idle_gap_counts_when_the_agents_have_it() -> None:
    """Flows that began every 2 ms were honest under the policy before."""
    switch = Switch(Policy.from_document({"scheme": "pias", "idle_gap_ms": 1}))
    switch.policing.adopt(PIAS)
    while switch.now_ns < hosts.AGENTS_FOLLOW_NS:
        switch.send(3, "TCP a > b", 1, 2)
        switch.until(switch.now_ns + 2 * MS)
    assert not switch.verdicts
    while switch.now_ns < hosts.AGENTS_FOLLOW_NS + 3 * S:
        switch.send(3, "TCP a > b", 1, 2)
        switch.until(switch.now_ns + 2 * MS)
    assert len(switch.verdicts) == 1


@pytest.mark.parametrize(
    ("document", "measured_bytes", "packets", "demoted"),
    [
        ({}, MSS_BYTES, 20, 1),
        ({}, tags.BURST_BYTES, 20, 0),
        ({}, tags.BURST_BYTES, 45, 1),
        ({}, 65_536, 45, 0),  # an agent before tags showed the end of a long packet
        ({"tag_burst": MSS_BYTES}, 65_536, 20, 1),
        ({"tag_burst": 65_536}, MSS_BYTES, 45, 0),
    ],
)
def test_the_burst_that_agents_report_counts_unless_the_policy_has_one(
    document: dict[str, int], measured_bytes: int, packets: int, demoted: int
) -> None:
    policy = Policy.from_document({"scheme": "pias", **document})
    switch = Switch(policy)
    switch.policing.adopt(policy, measured_bytes)
    while switch.now_ns < 3 * S:
        switch.send(3, "TCP a > b", 1, packets)
        switch.until(switch.now_ns + 11 * MS)
    assert len(switch.verdicts) == demoted


def test_of_many_suspicious_ports_the_worst_is_watched_first_and_each_in_its_turn() -> None:
    ports = [Port("s1", n, f"h{n}", 0, 10**9, edge=True) for n in range(1, 9)]
    policing, counts, watched = HostPolicing(ports, PIAS, {}), np.zeros((8, 2, tags.TAG_COUNT), np.int64), []
    policing.connected(0)
    for poll in range(1, 200):
        counts = counts.copy()
        counts[:, :, 1] += (20_000, 20_000 * FRAME_BYTES)  # 4 times what one connection can send
        if poll > 100:
            counts[6, :, 1] += (60_000, 60_000 * FRAME_BYTES)
        policing.observe_ingress(poll * INGRESS_POLL_NS, counts)
        watched.append(set(policing.treatments))
    assert all(len(now) <= hosts.MAX_WATCHED for now in watched)
    assert set().union(*watched[:50]) == set(range(1, 9))
    since = next(i for i, now in enumerate(watched[100:]) if 7 in now)
    assert since * INGRESS_POLL_NS <= hosts.TURN_NS + INGRESS_POLL_NS


# ── Honest hosts ───────────────────────────────────────────────────────────────────────────────

Message: TypeAlias = tuple[int, int, bool, int]
"""Bytes, ns between segments, whether TCP sends everything twice, ns of pause after the message."""


@pytest.fixture(scope="module")
def laws() -> ModuleType:
    return laws_cffi.load()


@st.composite
def traffic(draw: st.DrawFn) -> list[list[Message]]:
    """Draw the messages of several connections of one host."""
    message = st.tuples(
        st.one_of(st.integers(1, 3000), st.integers(1, 400_000)),
        st.sampled_from([0, 10_000, 120_000, 1_000_000]),
        st.booleans(),
        st.one_of(st.just(10 * MS + 1), st.integers(0, 60 * MS)),
    )
    return draw(st.lists(st.lists(message, min_size=1, max_size=60), min_size=1, max_size=6))


def packets_of(laws: ModuleType, name: str, messages: list[Message]) -> list[tuple[int, str, int, int]]:
    """Return (ns, name, tag, frame bytes) of each packet, tagged by the law of the tagger."""
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
@settings(deadline=None, max_examples=30)
def test_honest_hosts_are_never_accused(
    laws: ModuleType, connections: list[list[Message]], lag_ns: int
) -> None:
    """Policing watches the hosts from the first packet, and all counters arrive late and at once."""
    packets = sorted(
        packet for i, messages in enumerate(connections) for packet in packets_of(laws, f"flow {i}", messages)
    )
    switch = Switch()
    switch.policing._state_of[3] = switch.policing._state_of[3].suspected(0)
    for now_ns, name, tag, frame_bytes in packets:
        counted_ns = now_ns if not lag_ns else -(-now_ns // lag_ns) * lag_ns
        switch.until(max(counted_ns, switch.now_ns))
        switch.send(3, name, tag, 1, frame_bytes)
    switch.until(switch.now_ns + S)
    assert not switch.verdicts


@pytest.mark.parametrize("size", [1448, 11_000, 100_000])
@pytest.mark.parametrize("lag_ns", [0, 700 * MS])
def test_as_many_messages_as_a_connection_can_carry_are_honest(
    laws: ModuleType, size: int, lag_ns: int
) -> None:
    """Each message follows an idle gap, and TCP sends all of it twice. No honest connection sends more."""
    switch = Switch()
    switch.policing._state_of[3] = switch.policing._state_of[3].suspected(0)
    for now_ns, name, tag, frame_bytes in packets_of(laws, "a flow", [(size, 0, True, 10 * MS + 1)] * 300):
        counted_ns = now_ns if not lag_ns else -(-now_ns // lag_ns) * lag_ns
        switch.until(max(counted_ns, switch.now_ns))
        switch.send(3, name, tag, 1, frame_bytes)
    assert not switch.verdicts
