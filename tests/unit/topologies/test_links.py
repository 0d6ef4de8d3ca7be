# SPDX-License-Identifier: Apache-2.0
"""The links of a testbed: delays, losses and the rules of its switches."""

from dataclasses import replace

import pytest

from sluice import topologies
from sluice.hostagent.port import machine_watch
from sluice.policy.network.graph import Port
from sluice.policy.tags import TAG_COUNT
from sluice.topologies import commands, testbed
from sluice.topologies.qdiscs import HOP_NS, needs_delays, without_delays

LONG = topologies.build("single", link_delay_ns=5_000_000, host_delay_ns=HOP_NS)
SHORT = topologies.build("leaf-spine", link_delay_ns=200, host_delay_ns=20_000)
PORT = Port("s1", 2, "h2", 0, rate_bps=100_000_000, delay_ns=2_000_000, edge=True)


def test_a_delay_longer_than_a_hops_own_needs_netem_and_the_warning_names_the_longest() -> None:
    assert not needs_delays(SHORT)
    assert needs_delays(LONG)
    assert "5050 us: this kernel has no netem" in without_delays(LONG)


def test_both_directions_of_a_link_are_delayed_behind_the_port() -> None:
    links, forwarding = (command.stdin or "" for command in commands.delayed(PORT))
    assert {line.split()[2] for line in links.splitlines()} == {"s1-eth2~a", "s1-eth2~b"}
    for here, there in (("s1-eth2~a", "s1-eth2~b"), ("s1-eth2~b", "s1-eth2~a")):
        delay = forwarding.index(f"qdisc add dev {there} root netem delay 2000us")
        assert delay < forwarding.index(f"dev {here} ingress"), "no forwarding begins before its delay"
        assert f"redirect dev {there}\n" in forwarding


@pytest.mark.parametrize(("rate_bps", "delay_ns"), [(10**8, 2 * 10**6), (10**10, 10**8)])
def test_netem_holds_more_than_a_full_link_of_the_smallest_frames(rate_bps: int, delay_ns: int) -> None:
    port = replace(PORT, rate_bps=rate_bps, delay_ns=delay_ns)
    assert commands.in_flight_packets(port) * 64 * 8 > rate_bps * delay_ns / 1e9


SS = """\
p_raw 0      0        *:s1-eth2 * skmem:(r0,rb33554432,t0,tb134217728,f0,w0,o176,bl0,d12)
p_raw 0      0        *:s1-eth1 * skmem:(r0,rb33554432,t0,tb134217728,f0,w0,o176,bl0,d0)
p_raw 0      0      [0]:*       * skmem:(r0,rb33554432,t0,tb134217728,f0,w0,o0,bl0,d3)
"""


def test_socket_drops__by_interface() -> None:
    assert machine_watch.socket_drops(SS) == {
        "receive buffer of the switch at s1-eth2": 12,
        "receive buffer of the switch at s1-eth1": 0,
        "receive buffer of the switch at *": 3,
    }


def test_lost_upcalls__summed_over_datapaths() -> None:
    text = "netdev@ovs-netdev:\n  lookups: hit:7 missed:8 lost:2\n  flows: 0\nx@y:\n  lookups: hit:0 missed:0 lost:1\n"
    assert testbed.lost_upcalls(text) == 3


def test_host_counters__missing_ones_are_zero() -> None:
    found = testbed.host_counters("h1", '{"kernel":{"TcpExtTCPBacklogDrop":4,"IpInReceives":9}}')
    assert found["TcpExtTCPBacklogDrop at h1"] == 4
    assert found["TcpInCsumErrors at h1"] == 0
    assert "IpInReceives at h1" not in found


def test_interface_drops__packets_that_the_other_end_dropped() -> None:
    text = """[{"ifname":"lo","stats64":{"tx":{"dropped":9}}},{"ifname":"s1-eth1","stats64":{"tx":{"dropped":5}}}]"""
    assert machine_watch.interface_drops("switch side", text) == {"switch side of the link at s1-eth1": 5}


def test_qdisc_drops__the_root_counts_for_its_classes_and_clsact_does_not() -> None:
    text = (
        '[{"kind":"htb","dev":"s1-eth1","drops":4},{"kind":"pfifo","dev":"s1-eth1","drops":4},'
        '{"kind":"clsact","dev":"s1-eth1","drops":100}]'
    )
    assert machine_watch.qdisc_drops("queues of", text) == {"queues of s1-eth1": 4}


def test_flows__a_rule_writes_the_queue_twice_and_keeps_the_tag() -> None:
    graph = topologies.build("single", hosts=2)
    lines = commands.flows(graph, "s1", lambda tag: tag % 8)
    expected = (
        "table=1,metadata=2,ipv6,ip_dscp=13,"
        "actions=set_queue:5,push_vlan:0x8100,set_field:5->vlan_pcp,output:2"
    )
    assert expected in lines
    assert not any("ip_dscp" in line.partition("actions=")[2] for line in lines)


def test_flows__every_port_tag_and_family_once() -> None:
    graph = topologies.build("leaf-spine", leaves=2, spines=2, hosts_per_leaf=1)
    lines = [line for line in commands.flows(graph, "s1") if line.startswith("table=1")]
    assert len(lines) == len(set(lines)) == 3 * TAG_COUNT * 2
    assert len(commands.install(graph)) == len(graph.switches)
