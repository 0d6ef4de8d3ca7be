# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice import topologies
from sluice.policy.network.graph import host
from sluice.topologies.commands import hosts, switches


def rows(argv: list[str], table: str) -> list[list[str]]:
    """Return the `create` clauses of a table in an ovs-vsctl transaction."""
    text = "\0".join(argv).split("\0--\0")
    clauses = [clause.split("\0") for clause in text]
    return [clause for clause in clauses if "create" in clause and table in clause]


def test_queues__eight_in_strict_priority_up_to_the_link_rate() -> None:
    port = topologies.build("single", host_rate_bps=20_000_000).ports[0]
    argv = switches.queues(port)
    (qos,) = rows(argv, "QoS")
    assert "type=linux-htb" in qos
    assert "other_config:max-rate=20000000" in qos
    assert [f"queues:{q}=@s1_1_q{q}" in qos for q in range(8)] == [True] * 8
    queues = rows(argv, "Queue")
    assert len(queues) == switches.QUEUES == 8
    for q, row in enumerate(queues):
        assert row[0] == f"--id=@s1_1_q{q}"
        assert f"other_config:priority={q}" in row
        assert "other_config:max-rate=20000000" in row


def test_queues__the_least_rates_are_too_small_to_break_strict_priority() -> None:
    rate_bps = topologies.build("single", host_rate_bps=10_000_000).ports[0].rate_bps
    assert rate_bps / 100 > switches.QUEUES * switches.MIN_RATE_BPS


def test_network__every_port_has_its_number_and_every_bridge_is_secure() -> None:
    graph = topologies.build("leaf-spine")
    argv = switches.network(graph, controllers=["tcp:127.0.0.1:6653"], datapath_type="netdev").argv
    for port in graph.ports:
        at = argv.index(f"ofport_request={port.number}", argv.index(port.interface))
        assert argv[at - 3 : at] == ["set", "Interface", port.interface]
    assert argv.count("fail_mode=secure") == len(graph.switches)
    assert argv.count("protocols=OpenFlow13") == len(graph.switches)
    assert argv.count("datapath_type=netdev") == len(graph.switches)
    assert argv.count('target="tcp:127.0.0.1:6653"') == len(graph.switches)
    assert [f"other_config:datapath-id={s.dpid:016x}" in argv for s in graph.switches] == [True] * 6


def test_network__without_a_controller_no_target() -> None:
    argv = switches.network(topologies.build("single"), controllers=[], datapath_type="system").argv
    assert "Controller" not in argv


def test_network__several_controllers_of_each_switch() -> None:
    targets = ["tcp:127.0.0.1:6653", "tcp:127.0.0.1:6654"]
    argv = switches.network(topologies.build("single"), controllers=targets, datapath_type="netdev").argv
    assert [f'target="{target}"' in argv for target in targets] == [True, True]
    assert "controller=@s1_controller0,@s1_controller1" in argv


@pytest.mark.parametrize(("listing", "rows"), [("[aa-1]\n", ["aa-1"]), ("[aa-1, bb-2]\n", ["aa-1", "bb-2"])])
def test_controller_rows__of_one_and_of_several(listing: str, rows: list[str]) -> None:
    assert switches.controller_rows(listing) == rows


def test_host_links__the_transport_is_in_the_routes() -> None:
    lines = hosts.host_links(host(1), rto_min_ms=10, initial_window=12).splitlines()
    routes = [line for line in lines if line.startswith("route")]
    assert [route.split()[2] for route in routes] == ["10.0.0.0/16", "fd00::/64"]
    for route in routes:
        assert route.endswith("initcwnd 12 rto_min 10ms")


def test_host_links__no_minimum_rto_in_the_routes_where_the_kernel_has_a_sysctl() -> None:
    assert "rto_min" not in hosts.host_links(host(1), rto_min_ms=None, initial_window=10)
    assert hosts.host_sysctls(10)["net.ipv4.tcp_rto_min_us"] == "10000"
    assert "net.ipv4.tcp_rto_min_us" not in hosts.host_sysctls(None)


def test_neighbours__all_others_with_both_families() -> None:
    peers = [host(i) for i in (1, 2, 300)]
    lines = hosts.neighbours(peers[0], peers).splitlines()
    assert len(lines) == 4
    assert "neigh replace fd00::12c lladdr 02:00:00:00:01:2c dev h1-eth0 nud permanent" in lines


def test_shaper__a_host_paces_its_frames() -> None:
    assert "rate 10000000bit burst 3100 cburst 3100" in hosts.shaper("h1-eth0", 10_000_000)


def test_switch_ports__the_credit_of_the_root_class_is_the_mtu() -> None:
    ports = topologies.build("single", hosts=2, host_rate_bps=50_000_000).ports
    (batch, *offloads) = switches.switch_ports(ports)
    assert batch.stdin is not None
    assert batch.stdin.count("mtu 12500 ") == 2
    assert f"other_config:burst={12_500 * 8}" in switches.queues(ports[0])
    assert [c.argv[:3] for c in offloads] == [["ethtool", "-K", "s1-eth1"], ["ethtool", "-K", "s1-eth2"]]
    assert "tx off" in " ".join(offloads[0].argv)


def test_min_rates__shares_of_the_link_and_the_least_rate_for_the_rest() -> None:
    rates = switches.min_rates_bps(50_000_000, (0.7, 0.25, 0.0))
    assert rates == [35_000_000, 12_500_000, *[switches.MIN_RATE_BPS] * 6]
    assert switches.min_rates_bps(50_000_000, None) == [switches.MIN_RATE_BPS] * 8


def test_queues__a_row_has_its_interface_number_and_guaranteed_rate() -> None:
    port = topologies.build("single", host_rate_bps=20_000_000).ports[0]
    rows_of_queues = rows(switches.queues(port, (0.5, 0.5)), "Queue")
    assert "other_config:min-rate=10000000" in rows_of_queues[1]
    assert "other_config:min-rate=12000" in rows_of_queues[2]
    assert {"external_ids:interface=s1-eth1", "external_ids:queue=2"} <= set(rows_of_queues[2])


LISTING = """{"data":[
[["uuid","aa"],["map",[["interface","s1-eth1"],["queue","0"]]],["map",[["min-rate","12000"],["priority","0"]]]],
[["uuid","bb"],["map",[["interface","s1-eth1"],["queue","1"]]],["map",[["min-rate","12000"],["priority","1"]]]],
[["uuid","cc"],["map",[["interface","gone"],["queue","1"]]],["map",[["min-rate","12000"],["priority","1"]]]],
[["uuid","dd"],["map",[]],["map",[["min-rate","5"]]]]],"headings":["_uuid","external_ids","other_config"]}"""


def test_share_out__only_what_changes_in_one_transaction() -> None:
    ports = topologies.build("single", hosts=2, host_rate_bps=20_000_000).ports
    found = switches.queue_rows(LISTING)
    assert [row.uuid for row in found] == ["aa", "bb", "cc"], "rows without an interface are not Sluice's"
    change = switches.share_out(found, ports, (0.0, 0.25))
    assert change is not None
    assert change.argv[2:] == ["--", "set", "Queue", "bb", "other_config:min-rate=5000000"]
    assert switches.share_out(found, ports, None) is None
