# SPDX-License-Identifier: Apache-2.0
"""A switch's description of its ports, and its messages about their changes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from sluice.controller.openflow.frames import HEADER, Frame, ProtocolViolation
from sluice.controller.tables import LOCAL
from sluice.policy.network.description import OWN_PORT, SeenPort

PORT_BYTES = 64
"""Of one port in a description (1.3.5, section 7.2.1)."""
_MAX_PORT = 0xFFFFFF00
_PORT = struct.Struct("!I4x6s2x16sIIIIIIII")
_DOWN_CONFIG, _DOWN_STATE = 1, 1
_BPS_PER_KBPS = 1000
_TAP_KBPS = 10_000
"""Linux gives every tap interface this speed, so that of a virtual machine or of a bridge. It means nothing."""
_STATUS = struct.Struct("!B7x")


class PortReason(IntEnum):
    """Why a switch reports a port."""

    ADD = 0
    DELETE = 1
    MODIFY = 2


@dataclass(frozen=True)
class PortStatus:
    """One port has appeared, changed or gone."""

    reason: PortReason
    port: SeenPort


@dataclass(frozen=True)
class PortDescription:
    """All ports of a switch."""

    bridge: str
    """Name of the switch's own port; empty if it has none."""
    ports: tuple[SeenPort, ...]


def read_description(body: bytes) -> PortDescription:
    """Return the ports of a description, by number. Raises ProtocolViolation."""
    if len(body) % PORT_BYTES:
        raise ProtocolViolation(f"a port description has {len(body)} bytes; a port has {PORT_BYTES}")
    found = list(_ports(body))
    bridge = next((port.name for port in found if port.number == OWN_PORT), "")
    used = (port for port in found if port.up or port.number != OWN_PORT)
    return PortDescription(bridge, tuple(sorted(used, key=lambda port: port.number)))


def read_status(frame: Frame) -> PortStatus | None:
    """Return a change of a port; None for a reserved port. Raises ProtocolViolation.

    The switch's own port is a port while it is up: then its machine has an address in the network.
    """
    size = HEADER.size + _STATUS.size + PORT_BYTES
    if len(frame.data) != size:
        raise ProtocolViolation(f"a port status has {len(frame.data)} bytes instead of {size}")
    (reason,) = _STATUS.unpack_from(frame.data, HEADER.size)
    if reason not in tuple(PortReason):
        raise ProtocolViolation(f"a port status gives the reason {reason}; 0 to 2 are possible")
    port = next(_ports(frame.data[HEADER.size + _STATUS.size :]), None)
    if port is None:
        return None
    is_gone = port.number == OWN_PORT and not port.up
    return PortStatus(PortReason.DELETE if is_gone else PortReason(reason), port)


def _ports(body: bytes) -> Iterator[SeenPort]:
    for number, _, name, config, state, *_, kbps, _ in _PORT.iter_unpack(body):
        if number >= _MAX_PORT and number != LOCAL:
            continue
        up = not (config & _DOWN_CONFIG or state & _DOWN_STATE)
        text = name.split(b"\0", 1)[0].decode("utf-8", "replace")
        rate_bps = 0 if kbps == _TAP_KBPS else kbps * _BPS_PER_KBPS
        yield SeenPort(OWN_PORT if number == LOCAL else number, text, rate_bps, up)
