# SPDX-License-Identifier: Apache-2.0
"""Divides a network into parts that several threads simulate at once.

The network is cut at long links. What enters such a link needs its delay to reach the other end, so each part may
run that long without the others. The division depends on the scenario alone, and not on the number of threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from policy.explicit import ExplicitWorkload
from policy.framing import FRAME_BYTES
from policy.graph import Port, Topology
from policy.needs import Need
from policy.scenario import Scenario
from policy.scenario_tables import TcpVariant
from policy.units import NS_PER_S

LEAST_FRAMES = 200
"""Frames that all hosts together send in the time of a window. With fewer, threads wait more than they work."""
LEAST_SPEEDUP = 1.3
DELIVERY = 2
"""Work of a packet at a host, where TCP handles it, in units of the work of a packet at a switch."""


@dataclass(frozen=True)
class Division:
    """The part of each host and switch, in the order of the topology."""

    host: tuple[int, ...]
    switch: tuple[int, ...]
    shares: tuple[float, ...]
    """Of the work, for each part, if all links are equally loaded."""
    obstacle: str = ""
    """Why the network stays whole although threads were asked for."""


def whole(topology: Topology, obstacle: str = "") -> Division:
    """The network as one part."""
    return Division((0,) * len(topology.hosts), (0,) * len(topology.switches), (1.0,), obstacle)


def divide(scenario: Scenario, topology: Topology) -> Division:
    """The division of the network, if the scenario asks for threads and allows them."""
    if scenario.simulator.threads is None:
        return whole(topology)
    obstacle = _obstacle(scenario)
    if obstacle:
        return whole(topology, obstacle)
    division = min(_divisions(topology), key=lambda found: max(found.shares), default=whole(topology))
    if 1 / max(division.shares) < LEAST_SPEEDUP:
        return whole(topology, "no link delay is long enough to cut the network there")
    return division


def _obstacle(scenario: Scenario) -> str:
    """What in the scenario needs both ends of a flow at the same moment."""
    policy, tcp = scenario.policy, scenario.simulator.tcp or TcpVariant()
    if Need.EXPLICIT_RATES in policy.needs or policy.definition.control.name in ("datcp", "d3"):
        return f'flows of scheme "{policy.scheme}" depend on their ports or receivers at every moment'
    if tcp.keep == "threshold":
        return '[simulator.tcp] keep = "threshold" passes connections from flow to flow'
    if tcp.ends == "ack":
        return '[simulator.tcp] ends = "ack" ends flows at their sources'
    workload = scenario.workload
    if isinstance(workload, ExplicitWorkload) and any(flow.until_s is not None for flow in workload.flows):
        return "endless flows end at their sources"
    return ""


def _divisions(topology: Topology) -> Iterator[Division]:
    """Yield each division whose windows are long enough."""
    for least_ns in sorted({port.delay_ns for port in topology.ports}, reverse=True):
        frames = (
            sum(port.rate_bps for port in topology.ports if port.edge)
            * least_ns
            / NS_PER_S
            / (8 * FRAME_BYTES)
        )
        if frames < LEAST_FRAMES:
            return
        yield _cut(topology, least_ns)


def _cut(topology: Topology, least_ns: int) -> Division:
    """Cut the links whose delay is at least this. Hosts that are cut off one switch are one part."""
    group = {switch.name: switch.name for switch in topology.switches}
    edge = {port.peer: port for port in topology.ports if port.edge}
    for port in topology.ports:
        if not port.edge and port.delay_ns < least_ns and group[port.switch] != group[port.peer]:
            joined = group[port.peer]
            group = {name: group[port.switch] if of == joined else of for name, of in group.items()}
    of_switch = [group[switch.name] for switch in topology.switches]
    of_host = [_group_of_host(edge[host.name], group, least_ns) for host in topology.hosts]
    number = {name: part for part, name in enumerate(dict.fromkeys([*of_switch, *of_host]))}
    host, switch = tuple(number[of] for of in of_host), tuple(number[of] for of in of_switch)
    return Division(host, switch, _shares(topology, host, switch))


def _group_of_host(port: Port, group: dict[str, str], least_ns: int) -> str:
    return group[port.switch] if port.delay_ns < least_ns else f"hosts of {port.switch}"


def _shares(topology: Topology, of_host: tuple[int, ...], of_switch: tuple[int, ...]) -> tuple[float, ...]:
    switch = dict(zip((switch.name for switch in topology.switches), of_switch, strict=True))
    host = dict(zip((host.name for host in topology.hosts), of_host, strict=True))
    work = Counter(set(of_host) | set(of_switch))  # a part without links has next to none
    for port in topology.ports:
        if port.edge:
            work[host[port.peer]] += DELIVERY * port.rate_bps
            work[switch[port.switch]] += port.rate_bps
        else:
            work[switch[port.peer]] += port.rate_bps
    return tuple(work[part] / work.total() for part in sorted(work))
