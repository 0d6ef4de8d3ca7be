# SPDX-License-Identifier: Apache-2.0
"""Fixed OpenFlow rules for a network without a controller, as data: for the doctor and for tests.

Two tables as small as they can be: destination → egress port (one path), then port × tag → queue, said twice as the
controller says it (set_queue, and an 802.1p priority for the port program).
"""

from __future__ import annotations

from collections.abc import Callable

from policy.graph import Topology
from policy.tags import TAG_COUNT
from topologies.commands.hosts import Command

QueueOfTag = Callable[[int], int]


def flows(graph: Topology, switch: str, queue_of_tag: QueueOfTag = lambda tag: 0) -> list[str]:
    """The rules of a switch, one a line of ovs-ofctl. IP only: hosts know their neighbours."""
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
    """The actions before `output` that choose a queue."""
    return f"set_queue:{queue},push_vlan:0x8100,set_field:{queue}->vlan_pcp"


def install(graph: Topology, queue_of_tag: QueueOfTag = lambda tag: 0) -> list[Command]:
    """The commands that replace the rules of every switch, each switch's at once."""
    return [
        Command(
            ["ovs-ofctl", "-O", "OpenFlow13", "--bundle", "replace-flows", switch.name, "-"],
            "\n".join(flows(graph, switch.name, queue_of_tag)) + "\n",
        )
        for switch in graph.switches
    ]
