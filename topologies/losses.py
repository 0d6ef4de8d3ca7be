# SPDX-License-Identifier: Apache-2.0
"""Packets lost anywhere but in the emulated queues. A run with such losses does not represent a network.

The network itself drops packets beyond a port's buffer. The port program counts those drops, not this file.
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING

from sluice.hostagent.port.machine_watch import interface_drops, qdisc_drops, switch_side

if TYPE_CHECKING:
    from sluice.topologies.testbed import Testbed

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


def lost_upcalls(text: str) -> int:
    """Return packets of new flows that the switches had no time for, from `ovs-appctl dpctl/show`."""
    return sum(int(lost) for lost in _LOST_UPCALLS.findall(text))


def host_counters(host: str, text: str) -> dict[str, int]:
    """Return packets that arrived at a host and were dropped there, from `nstat -j`."""
    counters = json.loads(text)["kernel"]
    return {f"{name} at {host}": counters.get(name, 0) for name in _HOST_COUNTERS}
