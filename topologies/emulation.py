# SPDX-License-Identifier: Apache-2.0
"""The graph as a Mininet network: hosts in their own namespaces, veth pairs, then sysctls, addresses and rates.

Mininet makes nodes and links. One OVSDB transaction (`switches.network`) makes bridges, ports and queues with all
shaping, because Mininet's TCLink would replace Open vSwitch's queues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from mininet.link import Link
from mininet.net import Mininet
from mininet.node import Host as MininetHost
from mininet.node import Switch as MininetSwitch
from mininet.topo import Topo

from sluice.policy.network.graph import Host, Port, Topology
from sluice.runtime.command import run
from sluice.topologies.commands import hosts, switches
from sluice.topologies.commands.command import Command
from sluice.topologies.delayed_link import DelayedLink
from sluice.topologies.delays import HOP_NS, needs_delays
from sluice.topologies.ovs import controller_targets
from sluice.topologies.qdiscs import has_netem
from sluice.topologies.settings import Settings

RTO_SYSCTL = Path("/proc/sys/net/ipv4/tcp_rto_min_us")


class _PortHolder(MininetSwitch):  # type: ignore[misc]
    """A switch for Mininet. It only holds the link ends, which Open vSwitch then takes as ports."""

    def start(self, controllers: object) -> None:
        pass


class _GraphTopo(Topo):  # type: ignore[misc]
    """The graph in Mininet's form."""

    def build(self, graph: Topology, netem: bool) -> None:
        for host in graph.hosts:
            self.addHost(host.name, ip=f"{host.ipv4}/{hosts.HOST_PREFIX_V4}", mac=host.mac)
        for switch in graph.switches:
            self.addSwitch(switch.name, dpid=f"{switch.dpid:016x}")
        for port in graph.ports:
            if port.edge:
                ends = (port.peer, 0), (port.switch, port.number)
            elif (port.switch, port.number) < (port.peer, port.peer_port):
                ends = (port.switch, port.number), (port.peer, port.peer_port)
            else:
                continue
            (node1, port1), (node2, port2) = ends
            self.addLink(node1, node2, port1=port1, port2=port2, **_kind(port, netem))


def _kind(port: Port, netem: bool) -> dict[str, Any]:
    """Return Mininet's options of a port's link. A host's link has the port at its second end."""
    if not netem or port.delay_ns <= HOP_NS:
        return {}
    return {"cls": partial(DelayedLink, port=port, port_end=int(port.edge))}


def start(
    graph: Topology, settings: Settings, datapath_type: str, ovs: Callable[[list[str]], str]
) -> dict[str, int]:
    """Realise the graph in the current namespaces. `ovs` runs a tool of the testbed's Open vSwitch.

    Returns the process id of each host's first process, which holds its network namespace. Raises CommandFailed if
    any command fails.
    """
    _run_all(switches.switch_namespace())
    pids = _start_mininet(graph, netem=needs_delays(graph) and has_netem())
    _run_all(switches.switch_ports(graph.ports))
    for host in graph.hosts:
        _run_all(_host_commands(host, graph, settings), pid=pids[host.name])
    targets = controller_targets(settings.controllers, settings.ovs_dir)
    shares = settings.behaviour.shares
    ovs(switches.network(graph, controllers=targets, datapath_type=datapath_type, shares=shares).argv)
    return pids


def _start_mininet(graph: Topology, *, netem: bool) -> dict[str, int]:
    Mininet.inited = True  # keeps Mininet from raising limits of the whole machine (sysctl)
    net = Mininet(
        topo=_GraphTopo(graph, netem),
        host=MininetHost,
        switch=_PortHolder,
        link=Link,
        controller=None,
        build=True,
    )
    return {host.name: host.pid for host in net.hosts}


def _host_commands(host: Host, graph: Topology, settings: Settings) -> list[Command]:
    return hosts.host(
        host,
        graph.hosts,
        rate_bps=graph.edge_port(host.name).rate_bps,
        rto_min_ms=settings.rto_min_ms,
        initial_window=settings.initial_window,
        has_rto_sysctl=RTO_SYSCTL.exists(),
    )


def _run_all(todo: Iterable[Command], pid: int | None = None) -> None:
    """Run commands here, or in the network namespace of a process."""
    prefix = [] if pid is None else ["nsenter", f"--net=/proc/{pid}/ns/net"]
    for command in todo:
        run([*prefix, *command.argv], stdin=command.stdin)
