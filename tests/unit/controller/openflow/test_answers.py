# SPDX-License-Identifier: Apache-2.0
"""Messages of a switch, cut out of a stream and read, with every length checked.

tests/fuzz has inputs of all kinds for the same functions.
"""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from os_ken.lib.packet import ethernet, lldp, packet
from os_ken.ofproto import ofproto_v1_3 as ofp

from sluice.controller.openflow import answers
from sluice.controller.openflow import frames as framing
from sluice.controller.openflow.answers import AnswerReader, ErrorReply, PortReason, PortStatus
from sluice.controller.openflow.frames import (
    Frame,
    Framer,
    MessageType,
    ProtocolViolation,
    StatsType,
    message,
)
from sluice.controller.tables import LOCAL
from sluice.policy.network.description import OWN_PORT, SeenPort
from tests.fakes.openflow import TCP_FLOW, flow_entry, frames, learned_entry
from tests.kit.controller import arrived, frame_in

ONF = 0x4F4E4600


def frame(kind: int, body: bytes = b"", xid: int = 7) -> Frame:
    (only,) = frames(message(kind, body, xid))
    return only


def read(kind: int, body: bytes = b"") -> answers.Answer | None:
    return AnswerReader().read(frame(kind, body))


def part(stats: int, body: bytes, *, more: bool) -> Frame:
    head = struct.pack("!HHxxxx", stats, int(more))
    return frame(MessageType.MULTIPART_REPLY, head + body)


def test_statistics__are_complete_with_their_last_part() -> None:
    reader = AnswerReader()
    assert reader.read(part(StatsType.FLOW, b"ab", more=True)) is None
    assert reader.read(part(StatsType.FLOW, b"cd", more=False)) == answers.StatsReply(
        7, StatsType.FLOW, b"abcd"
    )


def test_roles__requested_and_unrequested() -> None:
    role = struct.pack("!IxxxxQ", 2, 9)
    assert read(MessageType.ROLE_REPLY, role) == answers.RoleReply(7, 2)
    status = struct.pack("!III", ONF, 1911, 3) + bytes(16)
    assert read(MessageType.EXPERIMENTER, status) == answers.RoleStatus(3)


@pytest.mark.parametrize(("control", "committed"), [(1, False), (3, False), (5, True), (7, False)])
def test_bundles__only_one_answer_is_a_commit(control: int, committed: bool) -> None:
    body = struct.pack("!IIIHH", ONF, 2300, 12, control, 3)
    assert read(MessageType.EXPERIMENTER, body) == answers.BundleReply(12, committed)


ERRORS = [(4, 9, "BAD_PREREQ", False), (4, 999, "999", False), (77, 1, "77", False)]
DENIALS = [(1, 10, "IS_SLAVE", True), (11, 0, "STALE", True)]


@pytest.mark.parametrize(("kind", "code", "words", "denies"), ERRORS + DENIALS)
def test_errors__in_words_as_far_as_they_are_known(kind: int, code: int, words: str, denies: bool) -> None:
    answer = read(MessageType.ERROR, struct.pack("!HH", kind, code))
    assert isinstance(answer, ErrorReply)
    assert words in answer.text
    assert answer.denies_mastership is denies


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
        (MessageType.MULTIPART_REPLY, b"\x00\x01", "10 bytes; its header has 16"),
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
    assert answers.is_port_description(part(StatsType.PORT_DESC, bytes(128), more=False))
    assert not answers.is_port_description(part(StatsType.PORT_DESC, bytes(127), more=False))
    assert not answers.is_port_description(part(StatsType.FLOW, bytes(128), more=False))
    assert not answers.is_port_description(frame(MessageType.BARRIER_REPLY))


# ── LLDP frames ───────────────────────────────────────────────────────────────────────────────

KEY = b"key"
SENT = answers.announcement(KEY, 0xA1, 3)


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
    assert not answers.Neighbour(7, 0xA1, 4, found.seal).is_genuine(KEY)


def test_read_neighbour__frames_of_others_are_ignored() -> None:
    sent = frame_in(SENT)
    assert arrived(sent[:-4]) is None
    assert arrived(b"\xff" + sent[1:]) is None
    assert arrived(bytes(60)) is None


def echo(body: bytes = b"", xid: int = 7, version: int = 4, length: int | None = None) -> bytes:
    """Return an echo request; `length` replaces the true one."""
    size = 8 + len(body) if length is None else length
    return struct.pack("!BBHI", version, 2, size, xid) + body


@given(st.lists(st.binary(max_size=40), max_size=8), st.data())
def test_framer__finds_the_messages_however_they_arrive(bodies: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(echo(body, i) for i, body in enumerate(bodies))
    framer, frames = Framer(), list[Frame]()
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        frames += framer.feed(stream[:cut])
        stream = stream[cut:]
    assert [(f.xid, f.kind, f.data[8:]) for f in frames] == [(i, 2, body) for i, body in enumerate(bodies)]
    assert not framer._buffer


BROKEN = {echo(length=size): f"{size} bytes; the minimum is 8" for size in (0, 1, 7)}


@pytest.mark.parametrize(("data", "words"), [*BROKEN.items(), (b"GET / HTTP/1.1", "begins with 0x47")])
def test_framer__a_short_length_and_a_version_that_does_not_exist_are_violations(
    data: bytes, words: str
) -> None:
    with pytest.raises(ProtocolViolation, match=words):
        list(Framer().feed(data))


def flood(body: bytes) -> None:
    replies = framing.Replies()
    for _ in range(300_000):
        replies.add(1, framing.Part(1, True, body))


@pytest.mark.parametrize("body", [bytes(60_000), b""])
def test_replies__parts_that_do_not_end_are_a_violation(body: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="do not end"):
        flood(body)


def test_replies__too_many_unfinished_ones_are_a_violation() -> None:
    replies = framing.Replies()
    for xid in range(8):
        replies.add(xid, framing.Part(1, True, b""))
    with pytest.raises(ProtocolViolation, match="9 unfinished"):
        replies.add(8, framing.Part(1, True, b""))


# ── Entries of statistics replies ─────────────────────────────────────────────────────────────

ACTION = struct.pack("!HHI", 21, 8, 1)


def apply_actions(actions: bytes, length: int | None = None) -> bytes:
    return struct.pack("!HHxxxx", 4, 8 + len(actions) if length is None else length) + actions


def checked_entries(body: bytes) -> list[framing.FlowEntry]:
    entries = list(framing.flow_entries(body))
    for entry in entries:
        framing.check_tail(entry.tail)
    return entries


@pytest.mark.parametrize(
    "body",
    [
        flow_entry(length=0),
        flow_entry(length=55),
        flow_entry(length=57),
        flow_entry()[:-1],
        flow_entry(match=b"\x00\x01\x00\x00" + bytes(4)),
        flow_entry(match=b"\x00\x01\xff\xff" + bytes(4)),
        flow_entry(match=b"\x00\x01\x00\x08\x80\x00\x00\xf0"),
        flow_entry(match=b"\x00\x01\x00\x06\x80\x00\x00\x00"),
        flow_entry(instructions=struct.pack("!HHxxxx", 1, 0)),
        flow_entry(instructions=apply_actions(struct.pack("!HHI", 21, 0, 1))),
        flow_entry(instructions=apply_actions(struct.pack("!HHI", 21, 4, 1))),
        flow_entry(instructions=apply_actions(ACTION, length=24)),
        flow_entry(instructions=apply_actions(struct.pack("!HHI8x", 21, 16, 1))),
        flow_entry(instructions=apply_actions(struct.pack("!HHI", 0, 8, 1))),
        flow_entry(instructions=struct.pack("!HHxxxx", 5, 16) + struct.pack("!HHI", 21, 0, 1)),
        *(flow_entry(instructions=struct.pack("!HH28x", kind, 32)) for kind in (1, 2, 6)),
    ],
)
def test_flow_entries__lengths_that_would_loop_or_overrun_are_violations(body: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        checked_entries(body)


@pytest.mark.parametrize("cut", [1, 7, 50])
def test_match_fields__a_match_that_is_cut_off_is_a_violation(cut: int) -> None:
    entry = bytearray(learned_entry(2, 1, 3, 300, TCP_FLOW))
    struct.pack_into("!H", entry, 50, struct.unpack_from("!H", entry, 50)[0] - cut)
    with pytest.raises(ProtocolViolation):
        [framing.match_fields(found.match) for found in framing.flow_entries(bytes(entry))]


def test_match_fields__leaves_out_masked_and_foreign_fields() -> None:
    dscp = struct.pack("!HBBB", 0x8000, 8 << 1, 1, 5)
    masked = struct.pack("!HBBBB", 0x8000, 9 << 1 | 1, 2, 1, 1)
    foreign = struct.pack("!HBBB", 0xFFFF, 10 << 1, 1, 6)
    assert framing.match_fields(dscp + masked + foreign) == {8: b"\x05"}


def group(bucket: bytes = b"", length: int | None = None) -> bytes:
    size = 8 + len(bucket) if length is None else length
    return struct.pack("!HBxI", size, 0, 1) + bucket


def bucket(actions: bytes = b"", length: int | None = None) -> bytes:
    size = 16 + len(actions) if length is None else length
    return struct.pack("!HHIIxxxx", size, 0, 0, 0) + actions


@pytest.mark.parametrize(
    "body",
    [
        group(length=0),
        group(length=16),
        group(bucket(length=0)),
        group(bucket(length=8)),
        group(bucket(struct.pack("!HHI", 21, 0, 1))),
    ],
)
def test_group_entry_offsets__lengths_that_would_loop_or_overrun_are_violations(body: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        list(framing.group_entry_offsets(body))


@pytest.mark.parametrize(("number", "size"), [(8, 1), (11, 4), (13, 2), (26, 16)])
def test_match_fields__a_field_of_another_size_is_a_violation(number: int, size: int) -> None:
    right = struct.pack("!HBB", 0x8000, number << 1, size) + bytes(size)
    assert framing.match_fields(right) == {number: bytes(size)}
    for wrong in (0, size + 1):
        field = struct.pack("!HBB", 0x8000, number << 1, wrong) + bytes(wrong)
        with pytest.raises(ProtocolViolation, match=f"field {number} has {wrong} bytes instead of {size}"):
            framing.match_fields(field)


def port(number: int, name: str, *, config: int = 0, state: int = 0, kbps: int = 0) -> bytes:
    """Return a port's description in os-ken's layout."""
    speeds = (0, 0, 0, 0, kbps, kbps)
    return struct.pack(ofp.OFP_PORT_PACK_STR, number, bytes(6), name.encode(), config, state, *speeds)


DOWN = {"config": 1}


def test_description__the_bridge_and_its_ports_in_order() -> None:
    """The bridge's own port is a port while it is up. The speed of a tap interface means nothing."""
    others = port(2, "eth2", kbps=10**7) + port(1, "vnet0", kbps=10_000)
    ports = (SeenPort(1, "vnet0", 0, True), SeenPort(2, "eth2", 10**10, True))
    head = struct.pack("!HHxxxx", StatsType.PORT_DESC, 0)
    for state, own in ((DOWN, ()), ({}, (SeenPort(OWN_PORT, "br-front", 0, True),))):
        found = read(MessageType.MULTIPART_REPLY, head + port(LOCAL, "br-front", **state) + others)
        assert found == answers.PortDescription("br-front", (*ports, *own))


def test_description__a_port_is_down_by_its_link_or_by_its_configuration() -> None:
    body = port(1, "link", state=1) + port(2, "admin", config=1) + port(3, "up", config=4, state=4)
    assert [p.up for p in answers.read_description(body).ports] == [False, False, True]


OWN_UP, OWN_DOWN = (SeenPort(OWN_PORT, "br-front", 0, up) for up in (True, False))


@pytest.mark.parametrize(
    ("reason", "body", "status"),
    [
        (PortReason.DELETE, port(3, "eth3"), PortStatus(PortReason.DELETE, SeenPort(3, "eth3", 0, True))),
        (PortReason.MODIFY, port(LOCAL, "br-front"), PortStatus(PortReason.MODIFY, OWN_UP)),
        (PortReason.MODIFY, port(LOCAL, "br-front", **DOWN), PortStatus(PortReason.DELETE, OWN_DOWN)),
        (PortReason.MODIFY, port(LOCAL - 1, "reserved"), None),
    ],
)
def test_status__of_one_port(reason: PortReason, body: bytes, status: PortStatus | None) -> None:
    assert read(MessageType.PORT_STATUS, struct.pack("!B7x", reason) + body) == status
