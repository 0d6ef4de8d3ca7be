# SPDX-License-Identifier: Apache-2.0
"""What a switch sends after the handshake, as values.

Pure. Anything that no switch would send, or that is malformed, raises ProtocolViolation.

LLDP frames by which the controller finds links: a frame leaves one switch's port and arrives at another's.

Each frame names the port from which it leaves, and carries a seal (HMAC-SHA256 with a key of this process). So no
host can invent a link between ports; it could at most repeat, at its own port, a frame that it has received.

The frame is IEEE 802.1AB: chassis id and port id (both "locally assigned"), time to live, and the seal as an
organisationally specific element. Frames of other senders are ignored.
"""

import hashlib
import hmac
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from os_ken.ofproto import ofproto_common
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from sluice.controller.openflow import frames
from sluice.controller.openflow.frames import HEADER, Frame, MessageType, ProtocolViolation, StatsType
from sluice.controller.openflow.request import CODEC, serialised
from sluice.controller.tables import LOCAL
from sluice.policy.network.description import OWN_PORT, SeenPort

# ── LLDP frames ─────────────────────────────────────────────────────────────────────────────────────


ETHERTYPE = 0x88CC
_NEAREST_BRIDGE = bytes.fromhex("0180c200000e")
"""Destination: a switch that does not speak to this controller does not forward such frames."""
_SOURCE = bytes.fromhex("020000000000")
_SEAL_BYTES = 16
_LIFETIME_S = 30
_OUI = bytes.fromhex("02534c")
"""A locally administered identifier."""
_ELEMENTS = struct.Struct(f"!HB8sHB4sHHH3sB{_SEAL_BYTES}sH")
_FRAME_HEAD = _NEAREST_BRIDGE + _SOURCE + struct.pack("!H", ETHERTYPE)
_PACKET_IN = struct.Struct("!IHBBQ")
_IN_PORT = 0
"""Number of the match field (1.3.5, table 12)."""


def _element(kind: int, size_bytes: int) -> int:
    """Return type and length of an element."""
    return kind << 9 | size_bytes


@dataclass(frozen=True)
class Neighbour:
    """A frame has arrived at port `arrived_at`. It says that it left port `number` of switch `dpid`."""

    arrived_at: int
    dpid: int
    number: int
    seal: bytes

    def is_genuine(self, key: bytes) -> bool:
        """Whether a controller with this key has sent the frame."""
        return hmac.compare_digest(self.seal, _seal(key, self.dpid, self.number))


def _seal(key: bytes, dpid: int, number: int) -> bytes:
    return hmac.new(key, struct.pack("!QI", dpid, number), hashlib.sha256).digest()[:_SEAL_BYTES]


def announcement(key: bytes, dpid: int, number: int) -> bytes:
    """Return the message that makes a switch send a frame from one of its ports."""
    elements = _ELEMENTS.pack(
        _element(1, 9),
        7,
        struct.pack("!Q", dpid),
        _element(2, 5),
        7,
        struct.pack("!I", number),
        _element(3, 2),
        _LIFETIME_S,
        _element(127, 4 + _SEAL_BYTES),
        _OUI,
        0,
        _seal(key, dpid, number),
        0,
    )
    output = [parser.OFPActionOutput(number)]
    return serialised(
        parser.OFPPacketOut(CODEC, ofp.OFP_NO_BUFFER, ofp.OFPP_CONTROLLER, output, _FRAME_HEAD + elements)
    )


def read_neighbour(frame: Frame) -> Neighbour | None:
    """Return what a packet from a switch says about a link; None for any other packet. Raises ProtocolViolation."""
    match_at = HEADER.size + _PACKET_IN.size
    if len(frame.data) < match_at + 4:
        raise ProtocolViolation(f"a packet-in has {len(frame.data)} bytes; the minimum is {match_at + 4}")
    match_bytes = frames.u16(frame.data, match_at + 2)
    start = match_at + (match_bytes + 7) // 8 * 8 + 2
    if match_bytes < 4 or start > len(frame.data):
        raise ProtocolViolation(f"a packet-in gives its match {match_bytes} bytes of {len(frame.data)}")
    port = frames.match_fields(frame.data[match_at + 4 : match_at + match_bytes]).get(_IN_PORT)
    packet = frame.data[start:]
    body = packet[len(_FRAME_HEAD) : len(_FRAME_HEAD) + _ELEMENTS.size]
    if port is None or not packet.startswith(_FRAME_HEAD) or len(body) < _ELEMENTS.size:
        return None
    _, _, dpid, _, _, number, _, _, kind, oui, _, seal, _ = _ELEMENTS.unpack(body)
    if kind != _element(127, 4 + _SEAL_BYTES) or oui != _OUI:
        return None
    return Neighbour(
        int.from_bytes(port, "big"), int.from_bytes(dpid, "big"), int.from_bytes(number, "big"), seal
    )


# ── Ports ───────────────────────────────────────────────────────────────────────────────────────────


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
    ports = list(_ports(body))
    bridge = next((port.name for port in ports if port.number == OWN_PORT), "")
    used = (port for port in ports if port.up or port.number != OWN_PORT)
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


# ── Answers ─────────────────────────────────────────────────────────────────────────────────────────


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
    part = frames.multipart(frame)
    return part.stats == StatsType.PORT_DESC and len(part.body) % PORT_BYTES == 0


class AnswerReader:
    """Reads the answers of one connection."""

    def __init__(self) -> None:
        self._replies = frames.Replies()

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
        part = frames.multipart(frame)
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
    kind, code = frames.u16(frame.data, 8), frames.u16(frame.data, 10)
    if kind == ofp.OFPET_EXPERIMENTER:
        if len(frame.data) < _EXPERIMENTER_ERROR_BYTES:
            raise ProtocolViolation(
                f"an experimenter error has {len(frame.data)} bytes; the minimum is {_EXPERIMENTER_ERROR_BYTES}"
            )
        number = int.from_bytes(frame.data[12:16], "big")
        owner = "ONF" if number == _ONF else hex(number)
        return ErrorReply(frame.xid, f"experimenter error {code} of {owner}")
    words = f"{ofp.ofp_error_type_to_str(kind)}, {ofp.ofp_error_code_to_str(kind, code)}"
    denies_meter = kind == ofp.OFPET_METER_MOD_FAILED and code not in _STALE_METERS
    return ErrorReply(frame.xid, words, (kind, code) in _DENIES_MASTERSHIP, denies_meter)
