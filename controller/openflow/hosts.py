# SPDX-License-Identifier: Apache-2.0
"""The rules of the table `hosts`, which a switch has learned, as the hosts that they remember."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address

from sluice.controller.cookies import cookie_port
from sluice.controller.openflow.entries import learned_entries, match_fields
from sluice.policy.network.description import SeenHost

_ETH_SRC, _IPV6_SRC, _ARP_SENDER = 4, 26, 22
"""Numbers of OpenFlow's match fields (1.3.5, table 12)."""


def learned_hosts(dpid: int, body: bytes) -> list[SeenHost]:
    """Return the hosts that a switch remembers, each with at most one address of each family.

    Raises ProtocolViolation.
    """
    found: dict[tuple[int, str], tuple[set[str], set[str]]] = {}
    for entry in learned_entries(body):
        fields = match_fields(entry.match)
        source = fields.get(_ETH_SRC)
        if source is None or source[0] & 1:  # no host has a multicast address
            continue
        ipv4, ipv6 = found.setdefault((cookie_port(entry.cookie), source.hex(":")), (set(), set()))
        if sender := fields.get(_ARP_SENDER):
            ipv4.add(str(ip_address(sender)))
        if sender := fields.get(_IPV6_SRC):
            ipv6.add(str(ip_address(sender)))
    return [
        SeenHost(mac, (dpid, port), _first(ipv4, "0.0.0.0"), _first_global(ipv6))
        for (port, mac), (ipv4, ipv6) in sorted(found.items())
    ]


def _first(addresses: Iterable[str], unknown: str) -> str:
    return min((address for address in addresses if address != unknown), default="")


def _first_global(addresses: Iterable[str]) -> str:
    """Return a global address rather than one of the link."""
    known = [IPv6Address(text) for text in addresses if text != "::"]
    return str(min(known, key=lambda address: (address.is_link_local, address))) if known else ""
