# SPDX-License-Identifier: Apache-2.0
"""The graph as a Mininet network: hosts in their own namespaces, veth pairs, then sysctls, addresses and rates.

Mininet makes nodes and links. One OVSDB transaction (`commands.network`) makes bridges, ports and queues with all
shaping, because Mininet's TCLink would replace Open vSwitch's queues.

A link with a delay has two veth pairs instead of one, and netem between them (topologies/commands.py).
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from mininet.link import Link
from mininet.net import Mininet
from mininet.node import Host as MininetHost
from mininet.node import Switch as MininetSwitch
from mininet.topo import Topo

from sluice.policy.network.graph import Port, Topology
from sluice.runtime.command import run
from sluice.topologies import commands
from sluice.topologies.commands import Command
from sluice.topologies.ovs import controller_targets
from sluice.topologies.qdiscs import HOP_NS, has_netem, needs_delays
from sluice.topologies.settings import Settings


class DelayedLink(Link):  # type: ignore[misc]
    """The link of a switch port. In the topology, the port's end is `port_end`: the first or the second."""

    def __init__(self, *nodes: Any, port: Port, port_end: int, **options: Any) -> None:
        self._port, self._port_end = port, port_end
        super().__init__(*nodes, **options)

    def makeIntfPair(  # Mininet calls it
        self,
        intfname1: str,
        intfname2: str,
        addr1: str | None = None,
        addr2: str | None = None,
        node1: Any = None,
        node2: Any = None,
        deleteIntfs: bool = True,
    ) -> None:
        """Make both pairs. The inner ends are in the network namespace of the switches, which is this process's."""
        ends = [(intfname1, node1), (intfname2, node2)]
        if self._port_end == 1:
            ends.reverse()
        for inner, (outer, node) in zip(commands.inner_ends(self._port), ends, strict=True):
            run(commands.pair(inner, outer, node.pid).argv)
        for command in commands.delayed(self._port):
            run(command.argv, stdin=command.stdin)


RTO_SYSCTL = Path("/proc/sys/net/ipv4/tcp_rto_min_us")


class _PortHolder(MininetSwitch):  # type: ignore[misc]
    """A switch for Mininet. It only holds the link ends, which Open vSwitch then takes as ports."""

    def start(self, controllers: object) -> None:
        pass


class _GraphTopo(Topo):  # type: ignore[misc]
    """The graph in Mininet's form."""

    def build(self, graph: Topology, netem: bool) -> None:
        for host in graph.hosts:
            self.addHost(host.name, ip=f"{host.ipv4}/{commands.HOST_PREFIX_V4}", mac=host.mac)
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
            options: dict[str, Any] = {}
            if netem and port.delay_ns > HOP_NS:
                port_end = int(port.edge)  # a host's link has the port at its second end
                options["cls"] = partial(DelayedLink, port=port, port_end=port_end)
            self.addLink(node1, node2, port1=port1, port2=port2, **options)


def start(
    graph: Topology, settings: Settings, datapath_type: str, ovs: Callable[[list[str]], str]
) -> dict[str, int]:
    """Realise the graph in the current namespaces. `ovs` runs a tool of the testbed's Open vSwitch.

    Returns the process id of each host's first process, which holds its network namespace. Raises CommandFailed if
    any command fails.
    """
    _run_all(commands.switch_namespace())
    Mininet.inited = True  # keeps Mininet from raising limits of the whole machine (sysctl)
    topo = _GraphTopo(graph, needs_delays(graph) and has_netem())
    net = Mininet(topo=topo, host=MininetHost, switch=_PortHolder, link=Link, controller=None, build=True)
    pids = {host.name: host.pid for host in net.hosts}
    _run_all(commands.switch_ports(graph.ports))
    for host in graph.hosts:
        host_commands = commands.host(
            host,
            graph.hosts,
            rate_bps=graph.edge_port(host.name).rate_bps,
            rto_min_ms=settings.rto_min_ms,
            initial_window=settings.initial_window,
            has_rto_sysctl=RTO_SYSCTL.exists(),
        )
        _run_all(host_commands, pid=pids[host.name])
    targets = controller_targets(settings.controllers, settings.ovs_dir)
    shares = settings.behaviour.guaranteed
    ovs(commands.network(graph, controllers=targets, datapath_type=datapath_type, shares=shares).argv)
    return pids


def _run_all(todo: Iterable[Command], pid: int | None = None) -> None:
    """Run commands here, or in the network namespace of a process."""
    prefix = [] if pid is None else ["nsenter", f"--net=/proc/{pid}/ns/net"]
    for command in todo:
        run([*prefix, *command.argv], stdin=command.stdin)
