# SPDX-License-Identifier: Apache-2.0
"""Packets lost anywhere but in the emulated queues: with those, a testbed must not pass for a network.

Drops beyond a port's buffer are the network's own doing and are the port program's counters, not these.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topologies.testbed import Testbed

_SOCKET_DROPS = re.compile(r"^\S+\s+\S+\s+\S+\s+\S+?:(\S+).*\bd(\d+)\)", re.MULTILINE)
_LOST_UPCALLS = re.compile(r"\blost:(\d+)")
_HOST_COUNTERS = (
    "TcpExtTCPBacklogDrop",
    "TcpExtTCPRcvQDrop",
    "TcpExtListenDrops",
    "IpInDiscards",
    "TcpInCsumErrors",
)


def count(bed: Testbed) -> dict[str, int]:
    """By place, since the testbed (or the process that counts there) started; only places where there are any."""
    found = {
        **interface_drops("switch side", bed.exec(None, ["ip", "-s", "-j", "link", "show"])),
        **qdisc_drops("queues of", bed.exec(None, ["tc", "-s", "-j", "qdisc", "show"])),
        **socket_drops(bed.exec(None, ["ss", "-0", "-H", "-n", "-m", "-O"])),
        "upcalls of the switches": lost_upcalls(bed.ovs(["ovs-appctl", "dpctl/show"])),
    }
    for host in bed.topology.hosts:
        found |= interface_drops("host side", bed.exec(host.name, ["ip", "-s", "-j", "link", "show"]))
        found |= qdisc_drops("send queue of", bed.exec(host.name, ["tc", "-s", "-j", "qdisc", "show"]))
        found |= host_counters(host.name, bed.exec(host.name, ["nstat", "-a", "-s", "-z", "-j"]))
    return {place: packets for place, packets in found.items() if packets}


def interface_drops(side: str, text: str) -> dict[str, int]:
    """A veth counts as dropped in sending what the other end's backlog did not take."""
    return {
        f"{side} of the link at {link['ifname']}": link["stats64"]["tx"]["dropped"]
        for link in json.loads(text)
        if link["ifname"] != "lo"
    }


def qdisc_drops(what: str, text: str) -> dict[str, int]:
    drops: dict[str, int] = {}
    for qdisc in json.loads(text):
        place = f"{what} {qdisc['dev']}"
        if qdisc["kind"] != "clsact":
            drops[place] = max(drops.get(place, 0), qdisc.get("drops", 0))
    return drops


def socket_drops(text: str) -> dict[str, int]:
    """Of packet sockets, from `ss -0 -H -n -m -O`: what the switches did not fetch in time."""
    drops: dict[str, int] = {}
    for interface, packets in _SOCKET_DROPS.findall(text):
        place = f"receive buffer of the switch at {interface}"
        drops[place] = drops.get(place, 0) + int(packets)
    return drops


def lost_upcalls(text: str) -> int:
    """From `ovs-appctl dpctl/show`: packets of new flows that the switches had no time for."""
    return sum(int(lost) for lost in _LOST_UPCALLS.findall(text))


def host_counters(host: str, text: str) -> dict[str, int]:
    """From `nstat -j`: packets that arrived and were thrown away."""
    counters = json.loads(text)["kernel"]
    return {f"{name} at {host}": counters.get(name, 0) for name in _HOST_COUNTERS}
