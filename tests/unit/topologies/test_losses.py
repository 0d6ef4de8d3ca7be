# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from sluice.hostagent.port import machine_watch
from sluice.topologies import losses

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
    assert losses.lost_upcalls(text) == 3


def test_host_counters__missing_ones_are_zero() -> None:
    found = losses.host_counters("h1", '{"kernel":{"TcpExtTCPBacklogDrop":4,"IpInReceives":9}}')
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
