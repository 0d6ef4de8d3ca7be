# SPDX-License-Identifier: Apache-2.0
"""LLDP frames on their way between two switches, for tests of the controller."""

from __future__ import annotations

from os_ken.ofproto import ofproto_v1_3_parser as parser

from sluice.controller.openflow import Neighbour
from sluice.controller.openflow.answers import read_neighbour
from sluice.controller.openflow.frames import Framer, MessageType, message


def frame_in(sent: bytes) -> bytes:
    """Return the Ethernet frame in a packet-out: header, fixed part and one action come before it."""
    return sent[24 + 16 :]


def arrived(frame: bytes, port: int = 7) -> Neighbour | None:
    """Return what the controller reads when the frame arrives at a port."""
    match = bytearray()
    length = parser.OFPMatch(in_port=port).serialize(match, 0)
    head = bytes(4) + len(frame).to_bytes(2, "big") + bytes(2) + bytes(8)
    data = message(MessageType.PACKET_IN, head + bytes(match[:length]) + bytes(2) + frame)
    return read_neighbour(next(Framer().feed(data)))
