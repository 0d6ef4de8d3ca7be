# SPDX-License-Identifier: Apache-2.0
"""Groups of a switch's ports by which packets enter. A port counts the ends of flows by group, not by ingress port.

So the counters grow with ports x tags, whatever the number of ports. Ports to other switches are one group, because
each of them carries many hosts. The ports of hosts take the other groups in turn, so a host is in one group alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from sluice.policy.graph import Port

TRUNKS = 0
"""The group of ports to other switches."""
HOST_GROUPS = 5
INGRESS_GROUPS = 1 + HOST_GROUPS


def ingress_groups(ports: Iterable[Port]) -> dict[int, int]:
    """Return port number → group, for the ports of one switch. Uplinks to others' networks count as trunks."""
    groups, hosts = {}, 0
    for port in sorted(ports, key=lambda port: port.number):
        of_host = port.edge and not port.uplink
        groups[port.number] = 1 + hosts % HOST_GROUPS if of_host else TRUNKS
        hosts += of_host
    return groups
