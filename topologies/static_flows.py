# SPDX-License-Identifier: Apache-2.0
"""Fixed OpenFlow rules for a network without a controller, as data. `sluice doctor` and tests use them.

There are two tables. The first maps the destination to an egress port (one path), the second maps port × tag to a
queue. Like the controller, a rule writes the queue twice: set_queue, and an 802.1p priority for the port program.
"""

from __future__ import annotations

from collections.abc import Callable

from sluice.policy.network.graph import Topology
from sluice.policy.tags import TAG_COUNT
from sluice.topologies.commands.command import Command

QueueOfTag = Callable[[int], int]


def flows(graph: Topology, switch: str, queue_of_tag: QueueOfTag = lambda tag: 0) -> list[str]:
    """Return the rules of a switch as lines for ovs-ofctl. They match IP only, because hosts need no ARP."""
    lines = []
    for host in graph.hosts:
        number = graph.next_ports(switch, host.name)[0].number
        for match in (f"ip,nw_dst={host.ipv4}", f"ipv6,ipv6_dst={host.ipv6}"):
            lines.append(f"table=0,{match},actions=write_metadata:{number},goto_table:1")
    for port in graph.ports_of[switch]:
        for tag in range(TAG_COUNT):
            for family in ("ip", "ipv6"):
                match = f"metadata={port.number},{family},ip_dscp={tag}"
                lines.append(f"table=1,{match},actions={to_queue(queue_of_tag(tag))},output:{port.number}")
    return lines


def to_queue(queue: int) -> str:
    """Return the actions before `output` that choose a queue."""
    return f"set_queue:{queue},push_vlan:0x8100,set_field:{queue}->vlan_pcp"


def install(graph: Topology, queue_of_tag: QueueOfTag = lambda tag: 0) -> list[Command]:
    """Return the commands that replace the rules of every switch, one command a switch."""
    return [
        Command(
            ["ovs-ofctl", "-O", "OpenFlow13", "--bundle", "replace-flows", switch.name, "-"],
            "\n".join(flows(graph, switch.name, queue_of_tag)) + "\n",
        )
        for switch in graph.switches
    ]
