# SPDX-License-Identifier: Apache-2.0
"""What a switch sends after the handshake, as values.

Pure. Anything that no switch would send, or that is malformed, raises ProtocolViolation.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TypeAlias

from os_ken.ofproto import ofproto_common
from os_ken.ofproto import ofproto_v1_3 as ofp

from sluice.controller.openflow.frames import (
    HEADER,
    Frame,
    MessageType,
    ProtocolViolation,
    Replies,
    StatsType,
    multipart,
    u16,
)
from sluice.controller.openflow.lldp import Neighbour, read_neighbour
from sluice.controller.openflow.ports import (
    PORT_BYTES,
    PortDescription,
    PortStatus,
    read_description,
    read_status,
)

_REQUESTED_STATS = tuple(StatsType)
_ONF: int = ofproto_common.ONF_EXPERIMENTER_ID
_ROLE_STATUS = 1911
"""ONF's experimenter type of OpenFlow 1.4's role status message."""
_BUNDLE_CONTROL = struct.Struct("!IIIHH")
_ROLE_REPLY = struct.Struct("!IxxxxQ")
_ERROR_BYTES, _EXPERIMENTER_ERROR_BYTES = 12, 16


@dataclass(frozen=True)
class StatsReply:
    """All parts of a statistics reply."""

    xid: int
    kind: StatsType
    body: bytes


@dataclass(frozen=True)
class BarrierReply:
    """The switch has executed everything that was sent before the barrier."""

    xid: int


@dataclass(frozen=True)
class BundleReply:
    """The switch's answer to a bundle control message."""

    bundle_id: int
    committed: bool


@dataclass(frozen=True)
class RoleReply:
    """The role that the switch gives this controller, on request."""

    xid: int
    role: int


@dataclass(frozen=True)
class RoleStatus:
    """The role that this controller has now, because another controller has become master."""

    role: int


@dataclass(frozen=True)
class ErrorReply:
    """An OpenFlow error message."""

    xid: int
    text: str
    """Type and code in words."""
    denies_mastership: bool = False
    """The switch has another master, or has seen a newer generation of masters."""
    denies_meter: bool = False
    """The switch cannot do what a meter needs."""


Answer: TypeAlias = (
    StatsReply
    | BarrierReply
    | BundleReply
    | RoleReply
    | RoleStatus
    | ErrorReply
    | PortDescription
    | PortStatus
    | Neighbour
)


def is_port_description(frame: Frame) -> bool:
    """Whether this is a well-formed port description, which is part of the handshake."""
    if frame.kind != MessageType.MULTIPART_REPLY:
        return False
    part = multipart(frame)
    return part.stats == StatsType.PORT_DESC and len(part.body) % PORT_BYTES == 0


class AnswerReader:
    """Reads the answers of one connection."""

    def __init__(self) -> None:
        self._replies = Replies()

    def read(self, frame: Frame) -> Answer | None:
        """Return the answer; None for an incomplete statistics reply and for unused messages."""
        match frame.kind:
            case MessageType.MULTIPART_REPLY:
                return self._statistics(frame)
            case MessageType.BARRIER_REPLY:
                return BarrierReply(frame.xid)
            case MessageType.EXPERIMENTER:
                return _read_experimenter(frame)
            case MessageType.ROLE_REPLY:
                return _read_role(frame)
            case MessageType.ERROR:
                return _read_error(frame)
            case MessageType.PORT_STATUS:
                return read_status(frame)
            case MessageType.PACKET_IN:
                return read_neighbour(frame)
            case MessageType.FLOW_REMOVED:
                return None  # Sluice requests none, but the switch's other controllers may
        raise ProtocolViolation(f"message of type {frame.kind}; no switch sends this type")

    def _statistics(self, frame: Frame) -> StatsReply | PortDescription | None:
        part = multipart(frame)
        if part.stats not in _REQUESTED_STATS:
            raise ProtocolViolation(f"statistics of type {part.stats}, which were not requested")
        body = self._replies.add(frame.xid, part)
        if body is None:
            return None
        if part.stats == StatsType.PORT_DESC:
            return read_description(body)
        return StatsReply(frame.xid, StatsType(part.stats), body)


def _read_role(frame: Frame) -> RoleReply:
    size = HEADER.size + _ROLE_REPLY.size
    if len(frame.data) != size:
        raise ProtocolViolation(f"a role reply has {len(frame.data)} bytes instead of {size}")
    role, _ = _ROLE_REPLY.unpack_from(frame.data, HEADER.size)
    return RoleReply(frame.xid, role)


def _read_experimenter(frame: Frame) -> BundleReply | RoleStatus:
    size = HEADER.size + _BUNDLE_CONTROL.size
    if len(frame.data) < size:
        raise ProtocolViolation(f"an experimenter message has {len(frame.data)} bytes; the minimum is {size}")
    owner, kind, value, control, _ = _BUNDLE_CONTROL.unpack_from(frame.data, HEADER.size)
    if owner != _ONF:
        raise ProtocolViolation(f"a message of experimenter {owner:#x}, which was not requested")
    if kind == _ROLE_STATUS:
        return RoleStatus(value)
    if kind == ofp.ONF_ET_BUNDLE_CONTROL and len(frame.data) == size:  # no properties follow
        return BundleReply(value, committed=control == ofp.ONF_BCT_COMMIT_REPLY)
    raise ProtocolViolation(
        f"an experimenter message of type {kind} and {len(frame.data)} bytes, which is no bundle reply"
    )


# ── Errors ─────────────────────────────────────────────────────────────────────────────────────

_DENIES_MASTERSHIP = {
    (ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_IS_SLAVE),
    (ofp.OFPET_ROLE_REQUEST_FAILED, ofp.OFPRRFC_STALE),
}
_STALE_METERS = (ofp.OFPMMFC_METER_EXISTS, ofp.OFPMMFC_UNKNOWN_METER)
"""The meters have changed since they were read. The controller reads them again."""


def _read_error(frame: Frame) -> ErrorReply:
    if len(frame.data) < _ERROR_BYTES:
        raise ProtocolViolation(
            f"an error message has {len(frame.data)} bytes; the minimum is {_ERROR_BYTES}"
        )
    kind, code = u16(frame.data, 8), u16(frame.data, 10)
    if kind == ofp.OFPET_EXPERIMENTER:
        return ErrorReply(frame.xid, _experimenter_text(frame.data, code))
    words = f"{ofp.ofp_error_type_to_str(kind)}, {ofp.ofp_error_code_to_str(kind, code)}"
    denies_meter = kind == ofp.OFPET_METER_MOD_FAILED and code not in _STALE_METERS
    return ErrorReply(frame.xid, words, (kind, code) in _DENIES_MASTERSHIP, denies_meter)


def _experimenter_text(data: bytes, code: int) -> str:
    if len(data) < _EXPERIMENTER_ERROR_BYTES:
        raise ProtocolViolation(
            f"an experimenter error has {len(data)} bytes; the minimum is {_EXPERIMENTER_ERROR_BYTES}"
        )
    number = int.from_bytes(data[12:16], "big")
    return f"experimenter error {code} of {'ONF' if number == _ONF else hex(number)}"
