# SPDX-License-Identifier: Apache-2.0
"""Statistics replies as counters, and the hosts that a switch remembers."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.controller.openflow import counters
from sluice.controller.openflow.change import rule_body
from sluice.controller.openflow.counters import flow_columns, learned_flows
from sluice.controller.openflow.frames import ProtocolViolation
from sluice.controller.openflow.learn import learn_body, learned_hosts, read_learn
from sluice.controller.rules import FlowRule, LearnHost, MatchValue, Source
from sluice.controller.tables import NOT_IP, VLAN_PRESENT, Table, cookie
from sluice.policy import tags
from sluice.policy.network.description import SeenHost
from sluice.policy.network.graph import INGRESS_GROUPS
from tests.fakes.openflow import TCP_FLOW, flow_entry, learned_entry

GOTO = struct.pack("!HHBxxx", 1, 8, 3)


def numbers(*ports: int) -> counters.Ints:
    return np.asarray(ports, np.int64)


# ── Columns ────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**63), st.booleans()), max_size=30))
def test_flow_columns__equal_and_unequal_entries_read_the_same(rows: list[tuple[int, int, bool]]) -> None:
    body = b"".join(flow_entry(c, n, instructions=GOTO if goto else b"") for c, n, goto in rows)
    cookies, packets, size_bytes = flow_columns(body)
    assert cookies.tolist() == [c for c, _, _ in rows]
    assert packets.tolist() == [n for _, n, _ in rows]
    assert size_bytes.tolist() == [99] * len(rows)


def test_flow_columns__more_runs_than_are_read_as_rows() -> None:
    """Entries whose length alternates: the rest is read one by one, into the same columns."""
    body = b"".join(flow_entry(i, i, instructions=GOTO * (i % 2)) for i in range(200))
    assert flow_columns(body)[0].tolist() == list(range(200))


# ── By port and tag ────────────────────────────────────────────────────────────────────────────


def test_completed_counts__by_group_without_tags_that_have_no_size() -> None:
    rows = [
        (cookie(Table.ENDS, 1, 9, 0), 3),
        (cookie(Table.ENDS, 1, 9, 1), 4),
        (cookie(Table.ENDS, 2, 40, INGRESS_GROUPS - 1), 5),
        (cookie(Table.ENDS, 2, 40, INGRESS_GROUPS), 100),
        (cookie(Table.ENDS, 2, tags.UNTAGGED), 100),
        (cookie(Table.ENDS, 2, tags.BACKGROUND), 100),
        (cookie(Table.ENDS), 1000),
    ]
    body = b"".join(flow_entry(number, packets) for number, packets in rows)
    counts = counters.completed_counts(body, numbers(1, 2))
    expected = np.zeros((2, INGRESS_GROUPS, tags.ATTAINED_BUCKETS), np.int64)
    expected[0, 0, 8], expected[0, 1, 8], expected[1, -1, 39] = 3, 4, 5
    assert np.array_equal(counts.values, expected)
    assert counts.reported.tolist() == [True, True]
    assert counts.entries == 7


def test_completed_counts__ports_that_are_missing_and_ports_that_were_not_requested() -> None:
    body = b"".join(flow_entry(cookie(Table.ENDS, port, 9), port) for port in (2, 4, 6, 8))
    counts = counters.completed_counts(body, numbers(1, 4, 6, 7))
    assert counts.values[:, 0, 8].tolist() == [0, 4, 6, 0]
    assert counts.values.sum() == 10
    assert counts.reported.tolist() == [False, True, True, False]
    assert counts.entries == 4


def test_carried_counts__by_port_and_tag_without_packets_that_have_none() -> None:
    rows = [(1, 9, 3), (1, tags.UNTAGGED, 4), (2, tags.BACKGROUND, 5), (2, NOT_IP, 100)]
    body = b"".join(flow_entry(cookie(Table.MAP, port, code), n) for port, code, n in rows)
    counts = counters.carried_counts(body + flow_entry(cookie(Table.MAP), 1000), numbers(1, 2))
    expected = np.zeros((2, tags.TAG_COUNT), np.int64)
    expected[0, [9, tags.UNTAGGED]], expected[1, tags.BACKGROUND] = (3, 4), 5
    assert counts.values[:, 0].tolist() == expected.tolist()
    assert counts.values[:, 1].tolist() == (99 * (expected > 0)).tolist()


# ── Flows of watched ports ─────────────────────────────────────────────────────────────────────


def test_learned_flows__a_flow_has_the_counters_of_all_of_its_tags() -> None:
    udp: dict[str, MatchValue] = {"eth_type": 0x86DD, "ip_proto": 17, "udp_src": 5000, "udp_dst": 53}
    udp |= {"ipv6_src": "fd00::2", "ipv6_dst": "fd00::1"}
    body = (
        learned_entry(2, 1, 3, 300, TCP_FLOW)
        + learned_entry(2, 5, 7, 700, TCP_FLOW, age_s=4)
        + learned_entry(3, 1, 9, 900, TCP_FLOW)
        + learned_entry(2, 0, 1, 100, udp)
    )
    (first, elsewhere, second), entries = learned_flows(body)
    assert (first.port, first.name, first.age_s) == (2, "TCP 10.0.0.2:4000 > 10.0.0.1:80", 4.5)
    assert first.by_tag == {1: (3, 300), 5: (7, 700)}
    assert (elsewhere.port, elsewhere.by_tag) == (3, {1: (9, 900)})
    assert (second.name, second.size_bytes) == ("UDP [fd00::2]:5000 > [fd00::1]:53", 100)
    assert entries == 4


def test_learned_flows__later_fragments_belong_to_no_flow() -> None:
    fragments: dict[str, MatchValue] = {"ip_proto": 17, "udp_src": 0, "udp_dst": 0}
    fragments |= {"ipv4_src": "10.0.0.2", "ipv4_dst": "10.0.0.1"}
    assert learned_flows(learned_entry(2, 1, 3, 300, fragments)) == ([], 1)


def test_learned_flows__unsupported_counters_are_no_error() -> None:
    (flow,), _ = learned_flows(learned_entry(2, 1, 2**64 - 1, 2**64 - 1, TCP_FLOW))
    assert flow.as_array().shape == (2, tags.TAG_COUNT)


# ── Queues ─────────────────────────────────────────────────────────────────────────────────────


def test_queue_counts__by_port_with_the_queues_in_order() -> None:
    rows = [(2, 1, 150, 1), (1, 0, 10, 1), (2, 0, 300, 2)]
    body = b"".join(struct.pack("!IIQQQII", p, q, b, n, 0, 0, 0) for p, q, b, n in rows)
    counts = counters.queue_counts(body)
    assert (counts[2].size_bytes, counts[2].packets) == ((300, 150), (2, 1))
    assert counts[1].size_bytes == (10,)


def test_queue_counts__half_of_an_entry_is_a_violation() -> None:
    row = struct.pack("!IIQQQII", 2, 1, 1500, 1, 0, 5, 0)
    with pytest.raises(ProtocolViolation, match="36 bytes; an entry has 40"):
        counters.queue_counts(row[:-4])


MAC = "52:54:00:00:00:11"


def entry(port: int, age_s: int = 1, **fields: MatchValue) -> bytes:
    match = tuple(sorted({"in_port": port, **fields}.items()))
    body = rule_body(FlowRule(Table.HOSTS, 1, match))
    return flow_entry(cookie(Table.HOSTS, port), match=body, duration_s=age_s)


def test_learned_hosts__one_for_each_sender_with_its_addresses_and_the_age_of_its_newest_rule() -> None:
    body = b"".join(
        [
            entry(1, 30, eth_src=MAC),
            entry(1, 20, eth_src=MAC, eth_type=0x806, arp_spa="10.9.0.11"),
            entry(1, 25, eth_src=MAC, eth_type=0x86DD, ipv6_src="fe80::1"),
            entry(1, 25, eth_src=MAC, eth_type=0x86DD, ipv6_src="2001:db8::11"),
            entry(2, 7, eth_src="52:54:00:00:00:12"),
        ]
    )
    assert learned_hosts(0xA1, body) == {
        SeenHost(MAC, (0xA1, 1), "10.9.0.11", "2001:db8::11"): 20,
        SeenHost("52:54:00:00:00:12", (0xA1, 2)): 7,
    }


def test_learned_hosts__one_address_in_two_vlans_is_two_hosts() -> None:
    """VLAN 0: the frame had no VLAN of its own, and its port no native one."""
    vids = {0: VLAN_PRESENT, 10: VLAN_PRESENT | 10}
    arp = entry(1, eth_src=MAC, eth_type=0x806, arp_spa="10.9.0.11", vlan_vid=vids[10])
    body = arp + b"".join(entry(1, eth_src=MAC, vlan_vid=vid) for vid in vids.values())
    assert list(learned_hosts(0xA1, body)) == [
        SeenHost(MAC, (0xA1, 1)),
        SeenHost(MAC, (0xA1, 1), "10.9.0.11", vlan=10),
    ]


def test_learned_hosts__a_probe_for_an_address_is_no_address() -> None:
    body = entry(1, eth_src=MAC, eth_type=0x806, arp_spa="0.0.0.0") + entry(
        1, eth_src=MAC, eth_type=0x86DD, ipv6_src="::"
    )
    assert list(learned_hosts(1, body)) == [SeenHost(MAC, (1, 1))]


def test_learned_hosts__a_multicast_sender_is_no_host() -> None:
    assert not learned_hosts(1, entry(1, eth_src="01:00:5e:00:00:01"))


@pytest.mark.parametrize("first_table", [0, 10])
@pytest.mark.parametrize("source", Source)
def test_learn_body__reads_back(source: Source, first_table: int) -> None:
    for vlans in (False, True):
        learns = LearnHost(9, source, first_table, vlans)
        assert read_learn(learn_body(learns)) == learns


ETH_SRC, ARP_SPA = 0x00000406, 0x00002004
"""Headers of Open vSwitch's fields NXM_OF_ETH_SRC and NXM_OF_ARP_SPA."""


@pytest.mark.parametrize(
    ("source", "field", "bits"), [*((s, ETH_SRC, 48) for s in Source), (Source.ARP, ARP_SPA, 32)]
)
def test_learn_body__a_host_is_learned_from_the_fields_of_its_own_frames(
    source: Source, field: int, bits: int
) -> None:
    assert struct.pack("!HIHIH", bits, field, 0, field, 0) in learn_body(LearnHost(9, source))
