# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from os_ken.lib.packet import ethernet, lldp, packet
from os_ken.ofproto import ofproto_v1_3_parser as parser

from sluice.controller.openflow import Neighbour, announcement
from sluice.controller.openflow.answers import read_neighbour
from sluice.controller.openflow.frames import Framer, MessageType, message

KEY = b"key"
SENT = announcement(KEY, 0xA1, 3)


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


def test_announcement__a_frame_that_names_its_port_comes_back() -> None:
    found = arrived(frame_in(SENT))
    assert found is not None
    assert (found.arrived_at, found.dpid, found.number) == (7, 0xA1, 3)
    assert found.is_genuine(KEY)


def test_announcement__is_lldp_for_other_programs() -> None:
    parsed = packet.Packet(frame_in(SENT))
    assert parsed.get_protocol(ethernet.ethernet).dst == lldp.LLDP_MAC_NEAREST_BRIDGE
    chassis, port, ttl, _, _ = parsed.get_protocol(lldp.lldp).tlvs
    assert (chassis.chassis_id, port.port_id, ttl.ttl) == ((0xA1).to_bytes(8, "big"), b"\0\0\0\3", 30)


def test_is_genuine__only_with_the_key_and_for_the_port() -> None:
    found = arrived(frame_in(SENT))
    assert found is not None
    assert not found.is_genuine(b"other key")
    assert not Neighbour(7, 0xA1, 4, found.seal).is_genuine(KEY)


def test_read_neighbour__frames_of_others_are_ignored() -> None:
    sent = frame_in(SENT)
    assert arrived(sent[:-4]) is None
    assert arrived(b"\xff" + sent[1:]) is None
    assert arrived(bytes(60)) is None


def test_announcement__leaves_through_the_port() -> None:
    assert SENT[24:40] == bytes.fromhex("0000 0010 00000003 ffe5 000000000000")
