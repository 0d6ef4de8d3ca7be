# SPDX-License-Identifier: Apache-2.0
"""The action `learn` with a limit, by which a switch counts the flows of a port one by one, and remembers its hosts.

An Open vSwitch extension that os-ken does not know: struct nx_action_learn2 in lib/ofp-actions.c
of Open vSwitch 2.8. It has a list of specifications, each of which copies a constant or a field of
the packet into the match of the learned rule.
"""

import struct
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address

from sluice.controller.openflow.frames import FlowEntry, flow_entries, match_fields
from sluice.controller.rules import LearnFlow, LearnHost, Source
from sluice.controller.tables import FAMILIES, VLAN_PRESENT, Table, cookie, cookie_port, cookie_table
from sluice.policy.network.description import SeenHost

NXAST_LEARN2 = 45
MAX_LEARNED = 64
"""Rules that one port learns at most: flows × tags."""
MAX_LEARNED_HOSTS = 1024
"""Senders that one port remembers at most. An address counts apart from the MAC address."""
_FLOW_TIMEOUT_S = 2
"""A learned rule expires this long after the flow's last packet.

Each packet learns the rule again, and Open vSwitch then restarts the hard timeout.
"""
HOST_TIMEOUT_S = 300
"""The same of a sender, as in a bridge (IEEE 802.1Q, 8.8.3)."""
_LEARN = struct.Struct("!HHHQHBxHHIHxx")
_FROM_FIELD = struct.Struct("!HIHIH")
_CONSTANT_16 = struct.Struct("!HHIH")
_IS_CONSTANT = 0x2000


def _nxm(vendor: int, field: int, size_bytes: int) -> int:
    """Return the header of a field in Open vSwitch's extensible match."""
    return vendor << 16 | field << 9 | size_bytes


_ARP = 0x0806
_IN_PORT, _ETH_SRC, _ETH_TYPE = _nxm(0, 0, 2), _nxm(0, 2, 6), _nxm(0, 3, 2)
_ARP_SENDER = _nxm(0, 16, 4)
_VLAN_TCI, _VLAN_BITS = _nxm(0, 4, 2), 13
"""The header of a VLAN; its lowest bits are the VLAN, and that there is one."""
_IP_TOS, _IP_PROTO = _nxm(0, 5, 1), _nxm(0, 6, 1)
_ADDRESSES = ((_nxm(0, 7, 4), _nxm(0, 8, 4)), (_nxm(1, 19, 16), _nxm(1, 20, 16)))
"""Source and destination, of IPv4 and of IPv6."""
_L4_PORTS = {6: (_nxm(0, 9, 2), _nxm(0, 10, 2)), 17: (_nxm(0, 11, 2), _nxm(0, 12, 2))}
"""Source and destination, of TCP and of UDP."""


def learn_body(learns: LearnFlow | LearnHost) -> bytes:
    """Return the action after its subtype, padded to a multiple of eight bytes."""
    if isinstance(learns, LearnHost):
        table, timeout_s, limit = Table.HOSTS, HOST_TIMEOUT_S, MAX_LEARNED_HOSTS
        constants, copied = _host_fields(learns.source)
        copied += [(_VLAN_TCI, _VLAN_BITS)] if learns.vlans else []
    else:
        table, timeout_s, limit = Table.FLOWS, _FLOW_TIMEOUT_S, MAX_LEARNED
        constants = _constant(FAMILIES[learns.family], 16, _ETH_TYPE)
        constants += _constant(learns.protocol, 8, _IP_PROTO)
        # Open vSwitch cannot learn a match on OXM's six DSCP bits. It can on the type of service,
        # whose two lowest bits it sets to zero: ECN is not part of the match.
        copied = [
            (_IN_PORT, 16),
            *((field, 8 * (field & 0xFF)) for field in _ADDRESSES[learns.family]),
            *((port, 16) for port in _L4_PORTS[learns.protocol]),
            (_IP_TOS, 8),
        ]
    number = cookie(table, learns.port)
    head = _LEARN.pack(0, timeout_s, 1, number, 0, learns.first_table + table, 0, 0, limit, 0)
    body = head + constants + b"".join(_FROM_FIELD.pack(bits, field, 0, field, 0) for field, bits in copied)
    return body + bytes(-(len(body) + 2) % 8)


def _host_fields(source: Source) -> tuple[bytes, list[tuple[int, int]]]:
    """Return the constants of a learned host's rule, and the fields that it copies."""
    sender = [(_IN_PORT, 16), (_ETH_SRC, 48)]
    match source:
        case Source.ARP:
            return _constant(_ARP, 16, _ETH_TYPE), [*sender, (_ARP_SENDER, 32)]
        case Source.NEIGHBOUR:
            return _constant(FAMILIES[1], 16, _ETH_TYPE), [*sender, (_ADDRESSES[1][0], 128)]
    return b"", sender


def _constant(value: int, bits: int, field: int) -> bytes:
    return _CONSTANT_16.pack(_IS_CONSTANT | bits, value, field, 0)


def read_learn(body: bytes) -> LearnFlow | LearnHost | None:
    """Return the action that `learn_body` has written as these bytes; None for any other body."""
    if len(body) < _LEARN.size:
        return None
    _, _, _, number, _, table, *_ = _LEARN.unpack_from(body)
    port, first_table = cookie_port(number), table - cookie_table(number)
    if first_table < 0:
        return None
    flows = (LearnFlow(port, family, protocol, first_table) for family in (0, 1) for protocol in _L4_PORTS)
    hosts = (LearnHost(port, source, first_table, vlans) for source in Source for vlans in (False, True))
    possible: tuple[LearnFlow | LearnHost, ...] = (*flows, *hosts)
    return next((learns for learns in possible if learn_body(learns) == body), None)


def is_learned(entry: FlowEntry) -> bool:
    """Whether the switch has learned this rule from one of Sluice's; it expires by itself."""
    table = cookie_table(entry.cookie)
    if table not in _TIMEOUTS or entry.cookie != cookie(table, cookie_port(entry.cookie)):
        return False
    return entry.timeouts == (0, _TIMEOUTS[table])


_TIMEOUTS: dict[int, int] = {Table.FLOWS: _FLOW_TIMEOUT_S, Table.HOSTS: HOST_TIMEOUT_S}


# ── Hosts behind the ports ──────────────────────────────────────────────────────────────────────────


_FIELD_ETH_SRC, _FIELD_VLAN, _FIELD_IPV6_SRC, _FIELD_ARP_SENDER = 4, 6, 26, 22
"""Numbers of OpenFlow's match fields (1.3.5, table 12)."""


def learned_hosts(dpid: int, body: bytes) -> dict[SeenHost, float]:
    """Return the hosts that a switch remembers, each with the age of its newest rule (s).

    A host has at most one address of each family. Raises ProtocolViolation.
    """
    found: dict[tuple[int, str, int], tuple[set[str], set[str], set[float]]] = {}
    for entry in flow_entries(body):
        fields = match_fields(entry.match)
        source = fields.get(_FIELD_ETH_SRC)
        if source is None or source[0] & 1:  # no host has a multicast address
            continue
        vlan = int.from_bytes(fields.get(_FIELD_VLAN, b"")) & ~VLAN_PRESENT
        where = cookie_port(entry.cookie), source.hex(":"), vlan
        ipv4, ipv6, ages_s = found.setdefault(where, (set(), set(), set()))
        ages_s.add(entry.duration_s)
        if sender := fields.get(_FIELD_ARP_SENDER):
            ipv4.add(str(ip_address(sender)))
        if sender := fields.get(_FIELD_IPV6_SRC):
            ipv6.add(str(ip_address(sender)))
    hosts = {}
    for (port, mac, vlan), (ipv4, ipv6, ages_s) in sorted(found.items()):
        address = min(ipv4 - {"0.0.0.0"}, default="")
        hosts[SeenHost(mac, (dpid, port), address, _first_global(ipv6), vlan=vlan)] = min(ages_s)
    return hosts


def _first_global(addresses: Iterable[str]) -> str:
    """Return a global address rather than one of the link."""
    specified = [IPv6Address(text) for text in addresses if text != "::"]
    return str(min(specified, key=lambda address: (address.is_link_local, address))) if specified else ""
