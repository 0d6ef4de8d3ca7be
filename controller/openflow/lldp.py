# SPDX-License-Identifier: Apache-2.0
"""LLDP frames by which the controller finds links: a frame leaves one switch's port and arrives at another's.

Each frame names the port from which it leaves, and carries a seal (HMAC-SHA256 with a key of this process). So no
host can invent a link between ports; it could at most repeat, at its own port, a frame that it has received.

The frame is IEEE 802.1AB: chassis id and port id (both "locally assigned"), time to live, and the seal as an
organisationally specific element. Frames of other senders are ignored.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass

from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from sluice.controller.openflow.entries import match_fields
from sluice.controller.openflow.frames import HEADER, Frame, ProtocolViolation, u16
from sluice.controller.openflow.request import CODEC, serialised

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
    match_bytes = u16(frame.data, match_at + 2)
    start = match_at + (match_bytes + 7) // 8 * 8 + 2
    if match_bytes < 4 or start > len(frame.data):
        raise ProtocolViolation(f"a packet-in gives its match {match_bytes} bytes of {len(frame.data)}")
    port = match_fields(frame.data[match_at + 4 : match_at + match_bytes]).get(_IN_PORT)
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
