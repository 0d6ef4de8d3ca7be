# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice import topologies
from sluice.hostagent.port.queues import queues
from sluice.policy.network.graph import host
from sluice.topologies import commands


def test_network__every_port_has_its_number_and_every_bridge_is_secure() -> None:
    graph = topologies.build("leaf-spine")
    argv = commands.network(graph, controllers=["tcp:127.0.0.1:6653"], datapath_type="netdev").argv
    for port in graph.ports:
        at = argv.index(f"ofport_request={port.number}", argv.index(port.interface))
        assert argv[at - 3 : at] == ["set", "Interface", port.interface]
    assert argv.count("fail_mode=secure") == len(graph.switches)
    assert argv.count("protocols=OpenFlow13") == len(graph.switches)
    assert argv.count("datapath_type=netdev") == len(graph.switches)
    assert argv.count('target="tcp:127.0.0.1:6653"') == len(graph.switches)
    assert [f"other_config:datapath-id={s.dpid:016x}" in argv for s in graph.switches] == [True] * 6


def test_network__without_a_controller_no_target() -> None:
    argv = commands.network(topologies.build("single"), controllers=[], datapath_type="system").argv
    assert "Controller" not in argv


def test_network__several_controllers_of_each_switch() -> None:
    targets = ["tcp:127.0.0.1:6653", "tcp:127.0.0.1:6654"]
    argv = commands.network(topologies.build("single"), controllers=targets, datapath_type="netdev").argv
    assert [f'target="{target}"' in argv for target in targets] == [True, True]
    assert "controller=@s1_controller0,@s1_controller1" in argv


@pytest.mark.parametrize(("listing", "rows"), [("[aa-1]\n", ["aa-1"]), ("[aa-1, bb-2]\n", ["aa-1", "bb-2"])])
def test_controller_rows__of_one_and_of_several(listing: str, rows: list[str]) -> None:
    assert commands.controller_rows(listing) == rows


def test_host_links__the_transport_is_in_the_routes() -> None:
    lines = commands.host_links(host(1), rto_min_ms=10, initial_window=12).splitlines()
    routes = [line for line in lines if line.startswith("route")]
    assert [route.split()[2] for route in routes] == ["10.0.0.0/16", "fd00::/64"]
    for route in routes:
        assert route.endswith("initcwnd 12 rto_min 10ms")


def test_host_links__no_minimum_rto_in_the_routes_where_the_kernel_has_a_sysctl() -> None:
    assert "rto_min" not in commands.host_links(host(1), rto_min_ms=None, initial_window=10)
    assert commands.host_sysctls(10)["net.ipv4.tcp_rto_min_us"] == "10000"
    assert "net.ipv4.tcp_rto_min_us" not in commands.host_sysctls(None)


def test_neighbours__all_others_with_both_families() -> None:
    peers = [host(i) for i in (1, 2, 300)]
    lines = commands.neighbours(peers[0], peers).splitlines()
    assert len(lines) == 4
    assert "neigh replace fd00::12c lladdr 02:00:00:00:01:2c dev h1-eth0 nud permanent" in lines


def test_shaper__a_host_paces_its_frames() -> None:
    assert "rate 10000000bit burst 3100 cburst 3100" in commands.shaper("h1-eth0", 10_000_000)


def test_switch_ports__the_credit_of_the_root_class_is_the_mtu() -> None:
    ports = topologies.build("single", hosts=2, host_rate_bps=50_000_000).ports
    (batch, *offloads) = commands.switch_ports(ports)
    assert batch.stdin is not None
    assert batch.stdin.count("mtu 12500 ") == 2
    assert f"other_config:burst={12_500 * 8}" in queues(ports[0])
    assert [c.argv[:3] for c in offloads] == [["ethtool", "-K", "s1-eth1"], ["ethtool", "-K", "s1-eth2"]]
    assert "tx off" in " ".join(offloads[0].argv)
