# SPDX-License-Identifier: Apache-2.0
"""Divides a network into parts that several threads simulate at once.

All parts run through the same windows of time. In a window they run stage by stage, so that a part knows all that
reaches it from earlier stages. What reaches it from its own stage or a later one comes by a long link. So it entered
this link in an earlier window. The division depends on the scenario alone, and not on the number of threads.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from sluice.policy import controls
from sluice.policy.controls import Need
from sluice.policy.network.graph import Port, Topology
from sluice.policy.units import FRAME_BYTES, NS_PER_S
from sluice.policy.workload.listed_flows import ExplicitWorkload
from sluice.policy.workload.scenario import Scenario, TcpVariant


@dataclass(frozen=True)
class Layout:
    """The network as the core knows it: the numbers of its parts, and its links."""

    topology: Topology

    @cached_property
    def host(self) -> dict[str, int]:
        """By name. A host's own port has the number of the host."""
        return {host.name: i for i, host in enumerate(self.topology.hosts)}

    @cached_property
    def switch(self) -> dict[str, int]:
        """By name."""
        return {switch.name: i for i, switch in enumerate(self.topology.switches)}

    @cached_property
    def port(self) -> dict[str, int]:
        """By id. Hosts' own ports are not among them."""
        return {port.id: len(self.topology.hosts) + i for i, port in enumerate(self.topology.ports)}

    @cached_property
    def links(self) -> list[Port]:
        """By number. A host's own link is the one at its switch's port."""
        edge = {port.peer: port for port in self.topology.ports if port.edge}
        return [edge[host.name] for host in self.topology.hosts] + list(self.topology.ports)

    @cached_property
    def next_hops(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """Edge switch → switch → the equal-cost links towards the hosts of the edge switch."""
        graph, next_hops = self.topology, {}
        for edge, host in {port.switch: port.peer for port in graph.ports if port.edge}.items():
            onward = {switch: graph.next_ports(switch, host) for switch in graph.distances_to_switch(edge)}
            onward[edge] = tuple(port for port in graph.ports_of[edge] if port.edge)
            next_hops[edge] = {
                switch: tuple(self.port[port.id] for port in ports) for switch, ports in onward.items()
            }
        return next_hops

    @cached_property
    def onward(self) -> list[set[int]]:
        """By the number of a link: the links by which its packets go on. None behind a link to a host."""
        onward: list[set[int]] = [set() for _ in self.links]
        of_hosts: dict[str, set[int]] = {}
        for towards in self.next_hops.values():
            for switch, numbers in towards.items():
                of_hosts.setdefault(switch, set()).update(numbers)
                for number in numbers:
                    if not self.links[number].edge:
                        onward[number].update(towards[self.links[number].peer])
        for host in range(len(self.topology.hosts)):
            onward[host] = of_hosts[self.links[host].switch]
        return onward


# ── Division ─────────────────────────────────────────────────────────────────────────────────────────


LEAST_FRAMES = 200
"""Frames that all hosts together send in the time of a window. With fewer, threads wait more than they work."""
LEAST_SPEEDUP = 1.3
DELIVERY = 2
"""Work of a packet at a host, where TCP handles it, in units of the work of a packet at a switch."""


@dataclass(frozen=True)
class Division:
    """Which part has each host and each port of a switch, in the order of the topology."""

    host: tuple[int, ...]
    port: tuple[int, ...]
    far: tuple[tuple[int, ...], ...]
    """The parts at the far end of each link: first of the hosts' own links, then of the switches' ports. Empty if that
    is the part of the port itself."""
    stage: tuple[int, ...]
    """Of each part."""
    shares: tuple[float, ...]
    """Of the work, for each part, if all links are equally loaded."""
    obstacle: str = ""
    """Why the network stays whole although threads were asked for."""

    @property
    def longest_share(self) -> float:
        """Of the work, on as many threads as there are parts."""
        longest: dict[int, float] = defaultdict(float)
        for stage, share in zip(self.stage, self.shares, strict=True):
            longest[stage] = max(longest[stage], share)
        return sum(longest.values())


def whole(topology: Topology, obstacle: str = "") -> Division:
    """The network as one part."""
    hosts, ports = len(topology.hosts), len(topology.ports)
    return Division((0,) * hosts, (0,) * ports, ((),) * (hosts + ports), (0,), (1.0,), obstacle)


def divide(scenario: Scenario, topology: Topology) -> Division:
    """The division of the network, if the scenario asks for threads and allows them."""
    if scenario.simulator.threads is None:
        return whole(topology)
    obstacle = _obstacle(scenario)
    if obstacle:
        return whole(topology, obstacle)
    division = min(_divisions(topology), key=lambda each: each.longest_share, default=whole(topology))
    if 1 / division.longest_share < LEAST_SPEEDUP:
        return whole(topology, "no link delay is long enough to cut the network there")
    return division


def _obstacle(scenario: Scenario) -> str:
    """What in the scenario needs both ends of a flow at the same moment."""
    policy, tcp = scenario.policy, scenario.simulator.tcp or TcpVariant()
    if "datcp" in scenario.workload.controls:
        return 'flows with control = "datcp" depend on their receivers at every moment'
    if (
        policy.needs & {Need.EXPLICIT_RATES, Need.TELEMETRY, Need.GRANTS}
        or policy.definition.control is controls.DATCP
    ):
        return f'flows of scheme "{policy.scheme}" depend on their ports or receivers at every moment'
    if scenario.simulator.shared_buffer:
        return "[simulator.shared_buffer] lets the ports of a switch depend on each other at every moment"
    if scenario.simulator.faults:
        return "faults of links change ports and routes of the whole network"
    if tcp.keep == "threshold":
        return '[simulator.tcp] keep = "threshold" passes connections from flow to flow'
    if tcp.ends == "ack":
        return '[simulator.tcp] ends = "ack" ends flows at their sources'
    workload = scenario.workload
    if isinstance(workload, ExplicitWorkload) and any(flow.until_s is not None for flow in workload.flows):
        return "endless flows end at their sources"
    if isinstance(workload, ExplicitWorkload) and workload.has_followers:
        return "flows that start after others may be far from them"
    return ""


def _divisions(topology: Topology) -> Iterator[Division]:
    """Yield each division whose windows are long enough."""
    layout = Layout(topology)
    for least_ns in sorted({port.delay_ns for port in topology.ports}, reverse=True):
        rate_bps = sum(port.rate_bps for port in topology.ports if port.edge)
        if rate_bps * least_ns / NS_PER_S / (8 * FRAME_BYTES) < LEAST_FRAMES:
            return
        yield _by_stages(layout, least_ns) or _by_switches(layout, least_ns)


Place = tuple[int, str]
"""A stage, and what is one part there: a switch, or the hosts of one."""


def _by_stages(layout: Layout, least_ns: int) -> Division | None:
    """Each switch's ports of one stage are a part. None if short links form a cycle, from port to port."""
    unit = _units(layout)
    before: dict[int, set[int]] = {of: set() for of in unit}
    for link, port in enumerate(layout.links):
        if port.delay_ns < least_ns:
            for onward in _onward(layout, link):
                before[unit[onward]].add(unit[link])
    try:
        order = list(TopologicalSorter(before).static_order())
    except CycleError:
        return None
    stage: dict[int, int] = {}
    for of in order:
        stage[of] = max((stage[earlier] + 1 for earlier in before[of]), default=0)
    parts = []
    for link, port in enumerate(layout.links):
        is_of_host = link < len(layout.topology.hosts)
        parts.append((stage[unit[link]], f"hosts of {port.switch}" if is_of_host else port.switch))
    return _division(layout, parts)


def _units(layout: Layout) -> list[int]:
    """What belongs together, by link: the hosts of a switch, its edge ports, and equal-cost ports."""
    unit = list(range(len(layout.links)))
    first: dict[str, int] = {}
    for host in range(len(layout.topology.hosts)):
        unit[host] = first.setdefault(layout.links[host].switch, host)
    for towards in layout.next_hops.values():
        for numbers in towards.values():
            joined = {unit[number] for number in numbers}
            if len(joined) > 1:
                unit = [min(joined) if of in joined else of for of in unit]
    return unit


def _onward(layout: Layout, link: int) -> set[int]:
    """The links by which what comes by a link goes on: also those of the host at its end."""
    if link >= len(layout.topology.hosts) and layout.links[link].edge:
        return {layout.host[layout.links[link].peer]}
    return layout.onward[link]


def _by_switches(layout: Layout, least_ns: int) -> Division:
    """Switches with short links between them are a part. So are the hosts of one, if their links are long."""
    topology = layout.topology
    group = {switch.name: switch.name for switch in topology.switches}
    for port in topology.ports:
        if not port.edge and port.delay_ns < least_ns and group[port.switch] != group[port.peer]:
            joined = group[port.peer]
            group = {name: group[port.switch] if of == joined else of for name, of in group.items()}

    def site(link: int, port: Port) -> str:
        is_of_host = link < len(topology.hosts)
        return f"hosts of {port.switch}" if is_of_host and port.delay_ns >= least_ns else group[port.switch]

    return _division(layout, [(0, site(link, port)) for link, port in enumerate(layout.links)])


def _division(layout: Layout, places: Sequence[Place]) -> Division:
    """The division by the place of each host and of each switch's port, in the order of the links."""
    hosts = len(layout.topology.hosts)
    number = {place: part for part, place in enumerate(dict.fromkeys(places))}
    part = [number[place] for place in places]
    far = [sorted({part[onward] for onward in _onward(layout, link)}) for link in range(len(part))]
    work: Counter[int] = Counter(set(part))  # a part without links has next to none
    for link, port in enumerate(layout.links):
        work[part[link]] += (DELIVERY if link < hosts else 1) * port.rate_bps
    return Division(
        host=tuple(part[:hosts]),
        port=tuple(part[hosts:]),
        far=tuple(() if parts == [own] else tuple(parts) for parts, own in zip(far, part, strict=True)),
        stage=tuple(stage for stage, _ in number),
        shares=tuple(work[of] / work.total() for of in range(len(number))),
    )
