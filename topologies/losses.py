# SPDX-License-Identifier: Apache-2.0
"""Packets lost anywhere but in the emulated queues. A run with such losses does not represent a network.

The network itself drops packets beyond a port's buffer. The port program counts those drops, not this file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluice.topologies.testbed import Testbed

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
    """Return lost packets by place, without places that lost none.

    Each place counts from the start of the testbed, or of the process that counts there.
    """
    found = {
        **switch_side(partial(bed.exec, None)),
        "upcalls of the switches": lost_upcalls(bed.ovs(["ovs-appctl", "dpctl/show"])),
    }
    for host in bed.topology.hosts:
        found |= interface_drops("host side", bed.exec(host.name, ["ip", "-s", "-j", "link", "show"]))
        found |= qdisc_drops("send queue of", bed.exec(host.name, ["tc", "-s", "-j", "qdisc", "show"]))
        found |= host_counters(host.name, bed.exec(host.name, ["nstat", "-a", "-s", "-z", "-j"]))
    return {place: packets for place, packets in found.items() if packets}


def switch_side(run: Callable[[list[str]], str]) -> dict[str, int]:
    """Return lost packets by place in the switches' network namespace. `run` runs a command there."""
    return {
        **interface_drops("switch side", run(["ip", "-s", "-j", "link", "show"])),
        **qdisc_drops("queues of", run(["tc", "-s", "-j", "qdisc", "show"])),
        **socket_drops(run(["ss", "-0", "-H", "-n", "-m", "-O"])),
    }


def interface_drops(side: str, text: str) -> dict[str, int]:
    """Return drops by interface. A veth counts a send drop if the other end's backlog was full."""
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
    """Return drops of packet sockets, from `ss -0 -H -n -m -O`: the switches did not read these packets in time."""
    drops: dict[str, int] = {}
    for interface, packets in _SOCKET_DROPS.findall(text):
        place = f"receive buffer of the switch at {interface}"
        drops[place] = drops.get(place, 0) + int(packets)
    return drops


def lost_upcalls(text: str) -> int:
    """Return packets of new flows that the switches had no time for, from `ovs-appctl dpctl/show`."""
    return sum(int(lost) for lost in _LOST_UPCALLS.findall(text))


def host_counters(host: str, text: str) -> dict[str, int]:
    """Return packets that arrived at a host and were dropped there, from `nstat -j`."""
    counters = json.loads(text)["kernel"]
    return {f"{name} at {host}": counters.get(name, 0) for name in _HOST_COUNTERS}
