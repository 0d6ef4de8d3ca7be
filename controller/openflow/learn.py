# SPDX-License-Identifier: Apache-2.0
"""The action `learn` with a limit, by which a switch counts the flows of a port one by one.

An Open vSwitch extension that os-ken does not know: struct nx_action_learn2 in lib/ofp-actions.c
of Open vSwitch 2.8. It has a list of specifications, each of which copies a constant or a field of
the packet into the match of the learned rule.
"""

from __future__ import annotations

import struct

from controller.cookies import cookie, cookie_port
from controller.openflow.entries import FlowEntry
from controller.pipeline import FAMILIES, Table
from controller.rules import LearnFlow

NXAST_LEARN2 = 45
MAX_LEARNED = 64
"""Rules that one port learns at most: flows × tags."""
_HARD_TIMEOUT_S = 2
"""A learned rule expires this long after the flow's last packet.

Each packet learns the rule again, and Open vSwitch then restarts the hard timeout.
"""
_LEARN = struct.Struct("!HHHQHBxHHIHxx")
_FROM_FIELD = struct.Struct("!HIHIH")
_CONSTANT_16 = struct.Struct("!HHIH")
_IS_CONSTANT = 0x2000


def _nxm(vendor: int, field: int, size_bytes: int) -> int:
    """Return the header of a field in Open vSwitch's extensible match."""
    return vendor << 16 | field << 9 | size_bytes


_IN_PORT, _ETH_TYPE = _nxm(0, 0, 2), _nxm(0, 3, 2)
_IP_TOS, _IP_PROTO = _nxm(0, 5, 1), _nxm(0, 6, 1)
_ADDRESSES = ((_nxm(0, 7, 4), _nxm(0, 8, 4)), (_nxm(1, 19, 16), _nxm(1, 20, 16)))
"""Source and destination, of IPv4 and of IPv6."""
_L4_PORTS = {6: (_nxm(0, 9, 2), _nxm(0, 10, 2)), 17: (_nxm(0, 11, 2), _nxm(0, 12, 2))}
"""Source and destination, of TCP and of UDP."""


def learn_body(flow: LearnFlow) -> bytes:
    """Return the action after its subtype, padded to a multiple of eight bytes."""
    number = cookie(Table.WITNESS, flow.port)
    head = _LEARN.pack(0, _HARD_TIMEOUT_S, 1, number, 0, Table.WITNESS, 0, 0, MAX_LEARNED, 0)
    constants = _constant(FAMILIES[flow.family], 16, _ETH_TYPE) + _constant(flow.protocol, 8, _IP_PROTO)
    copied = b"".join(_FROM_FIELD.pack(bits, field, 0, field, 0) for field, bits in _copied(flow))
    body = head + constants + copied
    return body + bytes(-(len(body) + 2) % 8)


def _copied(flow: LearnFlow) -> list[tuple[int, int]]:
    """Return the fields (and their bits) that a learned rule copies from the packet."""
    addresses = _ADDRESSES[flow.family]
    # Open vSwitch cannot learn a match on OXM's six DSCP bits. It can on the type of service,
    # whose two lowest bits it sets to zero: ECN is not part of the match.
    return [
        (_IN_PORT, 16),
        *((field, 8 * (field & 0xFF)) for field in addresses),
        *((port, 16) for port in _L4_PORTS[flow.protocol]),
        (_IP_TOS, 8),
    ]


def _constant(value: int, bits: int, field: int) -> bytes:
    return _CONSTANT_16.pack(_IS_CONSTANT | bits, value, field, 0)


def read_learn(body: bytes) -> LearnFlow | None:
    """Return the action that `learn_body` has written as these bytes; None for any other body."""
    if len(body) < _LEARN.size:
        return None
    port = cookie_port(_LEARN.unpack_from(body)[3])
    possible = (LearnFlow(port, family, protocol) for family in (0, 1) for protocol in _L4_PORTS)
    return next((flow for flow in possible if learn_body(flow) == body), None)


def is_learned(entry: FlowEntry) -> bool:
    """Whether the switch has learned this rule from one of Sluice's; it expires by itself."""
    number = cookie(Table.WITNESS, cookie_port(entry.cookie))
    timeouts = (0, _HARD_TIMEOUT_S)
    return entry.table == Table.WITNESS and entry.cookie == number and entry.timeouts == timeouts
