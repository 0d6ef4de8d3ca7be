# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct

import pytest

from sluice.controller.openflow.change import rule_body
from sluice.controller.openflow.learn import learn_body, learned_hosts, read_learn
from sluice.controller.rules import FlowRule, LearnHost, MatchValue, Source
from sluice.controller.tables import Table, cookie
from sluice.policy.network.description import SeenHost
from tests.fakes.openflow import flow_entry

MAC = "52:54:00:00:00:11"


def entry(port: int, **fields: MatchValue) -> bytes:
    match = tuple(sorted({"in_port": port, **fields}.items()))
    return flow_entry(cookie(Table.HOSTS, port), match=rule_body(FlowRule(Table.HOSTS, 1, match)))


def test_learned_hosts__one_for_each_sender_with_its_addresses() -> None:
    body = b"".join(
        [
            entry(1, eth_src=MAC),
            entry(1, eth_src=MAC, eth_type=0x806, arp_spa="10.9.0.11"),
            entry(1, eth_src=MAC, eth_type=0x86DD, ipv6_src="fe80::1"),
            entry(1, eth_src=MAC, eth_type=0x86DD, ipv6_src="2001:db8::11"),
            entry(2, eth_src="52:54:00:00:00:12"),
        ]
    )
    assert learned_hosts(0xA1, body) == [
        SeenHost(MAC, (0xA1, 1), "10.9.0.11", "2001:db8::11"),
        SeenHost("52:54:00:00:00:12", (0xA1, 2)),
    ]


def test_learned_hosts__a_probe_for_an_address_is_no_address() -> None:
    body = entry(1, eth_src=MAC, eth_type=0x806, arp_spa="0.0.0.0") + entry(
        1, eth_src=MAC, eth_type=0x86DD, ipv6_src="::"
    )
    assert learned_hosts(1, body) == [SeenHost(MAC, (1, 1))]


def test_learned_hosts__a_multicast_sender_is_no_host() -> None:
    assert learned_hosts(1, entry(1, eth_src="01:00:5e:00:00:01")) == []


@pytest.mark.parametrize("first_table", [0, 10])
@pytest.mark.parametrize("source", Source)
def test_learn_body__reads_back(source: Source, first_table: int) -> None:
    learns = LearnHost(9, source, first_table)
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
