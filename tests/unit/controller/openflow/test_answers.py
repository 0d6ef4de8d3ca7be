# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from os_ken.lib.packet import ethernet, lldp, packet

from sluice.controller.openflow.answers import (
    Answer,
    AnswerReader,
    BundleReply,
    ErrorReply,
    Neighbour,
    RoleReply,
    RoleStatus,
    StatsReply,
    announcement,
    is_port_description,
)
from sluice.controller.openflow.frames import Frame, MessageType, ProtocolViolation, StatsType, message
from tests.fakes.openflow import frames
from tests.kit.controller import arrived, frame_in

ONF = 0x4F4E4600


def frame(kind: int, body: bytes = b"", xid: int = 7) -> Frame:
    (only,) = frames(message(kind, body, xid))
    return only


def read(kind: int, body: bytes = b"") -> Answer | None:
    return AnswerReader().read(frame(kind, body))


def part(stats: int, body: bytes, *, more: bool) -> Frame:
    head = struct.pack("!HHxxxx", stats, int(more))
    return frame(MessageType.MULTIPART_REPLY, head + body)


def test_statistics__are_complete_with_their_last_part() -> None:
    reader = AnswerReader()
    assert reader.read(part(StatsType.FLOW, b"ab", more=True)) is None
    assert reader.read(part(StatsType.FLOW, b"cd", more=False)) == StatsReply(7, StatsType.FLOW, b"abcd")


def test_roles__requested_and_unrequested() -> None:
    role = struct.pack("!IxxxxQ", 2, 9)
    assert read(MessageType.ROLE_REPLY, role) == RoleReply(7, 2)
    status = struct.pack("!III", ONF, 1911, 3) + bytes(16)
    assert read(MessageType.EXPERIMENTER, status) == RoleStatus(3)


@pytest.mark.parametrize(("control", "committed"), [(1, False), (3, False), (5, True), (7, False)])
def test_bundles__only_one_answer_is_a_commit(control: int, committed: bool) -> None:
    body = struct.pack("!IIIHH", ONF, 2300, 12, control, 3)
    assert read(MessageType.EXPERIMENTER, body) == BundleReply(12, committed)


@pytest.mark.parametrize(("kind", "code", "words"), [(4, 9, "BAD_PREREQ"), (4, 999, "999"), (77, 1, "77")])
def test_errors__in_words_as_far_as_they_are_known(kind: int, code: int, words: str) -> None:
    answer = read(MessageType.ERROR, struct.pack("!HH", kind, code))
    assert isinstance(answer, ErrorReply)
    assert words in answer.text
    assert not answer.denies_mastership


@pytest.mark.parametrize(("kind", "code"), [(1, 10), (11, 0)])
def test_errors__is_slave_and_stale_deny_mastership(kind: int, code: int) -> None:
    answer = read(MessageType.ERROR, struct.pack("!HH", kind, code))
    assert isinstance(answer, ErrorReply)
    assert answer.denies_mastership


def test_errors__of_experimenters_name_the_owner() -> None:
    of_onf = read(MessageType.ERROR, struct.pack("!HHI", 0xFFFF, 2304, ONF))
    assert of_onf == ErrorReply(7, "experimenter error 2304 of ONF")
    of_other = read(MessageType.ERROR, struct.pack("!HHI", 0xFFFF, 5, 0x2320))
    assert of_other == ErrorReply(7, "experimenter error 5 of 0x2320")


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        (MessageType.FLOW_MOD, bytes(48), "type 14"),
        (200, b"", "type 200"),
        (MessageType.ERROR, b"", "8 bytes; the minimum is 12"),
        (MessageType.ERROR, b"\xff\xff\0\0", "12 bytes; the minimum is 16"),
        (MessageType.ROLE_REPLY, bytes(8), "16 bytes instead of 24"),
        (MessageType.PORT_STATUS, bytes(8), "16 bytes instead of 80"),
        (MessageType.PORT_STATUS, b"\3" + bytes(71), "the reason 3"),
        (MessageType.PACKET_IN, bytes(8), "16 bytes; the minimum is 28"),
        (MessageType.PACKET_IN, bytes(18) + b"\2\0" + bytes(2), "its match 512 bytes"),
        (MessageType.MULTIPART_REPLY, struct.pack("!HHxxxx", 3, 0), "statistics of type 3"),
        (MessageType.EXPERIMENTER, bytes(15), "23 bytes; the minimum is 24"),
        (MessageType.EXPERIMENTER, bytes(16), "experimenter 0x0"),
        (MessageType.EXPERIMENTER, struct.pack("!II", ONF, 2301) + bytes(8), "type 2301"),
        (MessageType.EXPERIMENTER, struct.pack("!II", ONF, 2300) + bytes(12), "28 bytes"),
    ],
)
def test_messages_that_no_switch_sends_are_violations(kind: int, body: bytes, words: str) -> None:
    with pytest.raises(ProtocolViolation, match=words):
        read(kind, body)


def test_is_port_description__only_if_it_is_well_formed() -> None:
    assert is_port_description(part(StatsType.PORT_DESC, bytes(128), more=False))
    assert not is_port_description(part(StatsType.PORT_DESC, bytes(127), more=False))
    assert not is_port_description(part(StatsType.FLOW, bytes(128), more=False))
    assert not is_port_description(frame(MessageType.BARRIER_REPLY))


@given(st.integers(0, 255), st.binary(max_size=64))
def test_any_bytes_are_an_answer_or_a_violation(kind: int, body: bytes) -> None:
    try:
        read(kind, body)
    except ProtocolViolation:
        return


# ── LLDP frames ───────────────────────────────────────────────────────────────────────────────

KEY = b"key"
SENT = announcement(KEY, 0xA1, 3)


def test_announcement__is_lldp_for_other_programs() -> None:
    parsed = packet.Packet(frame_in(SENT))
    assert parsed.get_protocol(ethernet.ethernet).dst == lldp.LLDP_MAC_NEAREST_BRIDGE
    chassis, port, ttl, _, _ = parsed.get_protocol(lldp.lldp).tlvs
    assert (chassis.chassis_id, port.port_id, ttl.ttl) == ((0xA1).to_bytes(8, "big"), b"\0\0\0\3", 30)


def test_is_genuine__only_with_the_key_and_for_the_port() -> None:
    found = arrived(frame_in(SENT))
    assert found is not None
    assert (found.arrived_at, found.dpid, found.number) == (7, 0xA1, 3)
    assert found.is_genuine(KEY)
    assert not found.is_genuine(b"other key")
    assert not Neighbour(7, 0xA1, 4, found.seal).is_genuine(KEY)


def test_read_neighbour__frames_of_others_are_ignored() -> None:
    sent = frame_in(SENT)
    assert arrived(sent[:-4]) is None
    assert arrived(b"\xff" + sent[1:]) is None
    assert arrived(bytes(60)) is None
