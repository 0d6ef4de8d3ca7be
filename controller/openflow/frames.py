# SPDX-License-Identifier: Apache-2.0
"""OpenFlow 1.3 messages as bytes: written with a header, and cut out of a byte stream.

The peer may be broken or hostile, so every length is checked before anyone relies on it. Malformed
bytes raise ProtocolViolation, which ends that connection and no other.

os-ken 4.2's parsers advance by the length fields that they read, and loop without end on a length
of 0. So every nested length in an entry of a statistics reply is checked before os-ken parses it.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

VERSION = 0x04
_VERSIONS = range(0x01, 0x07)
HEADER = struct.Struct("!BBHI")
"""Version, type, length in bytes with the header, transaction id."""
MULTIPART_HEADER_BYTES = 16
MAX_REPLY_BYTES = 64 << 20
"""A longer reply is an attack or a fault: no switch holds that much for Sluice."""


class MessageType(IntEnum):
    """OpenFlow message types (1.3.5, section 7.1.1) that Sluice sends or receives."""

    HELLO = 0
    ERROR = 1
    ECHO_REQUEST = 2
    ECHO_REPLY = 3
    EXPERIMENTER = 4
    FEATURES_REQUEST = 5
    FEATURES_REPLY = 6
    PACKET_IN = 10
    FLOW_REMOVED = 11
    PORT_STATUS = 12
    FLOW_MOD = 14
    GROUP_MOD = 15
    MULTIPART_REQUEST = 18
    MULTIPART_REPLY = 19
    BARRIER_REQUEST = 20
    BARRIER_REPLY = 21
    ROLE_REQUEST = 24
    ROLE_REPLY = 25
    METER_MOD = 29


class StatsType(IntEnum):
    """Types of multipart messages (1.3.5, section 7.3.5) that Sluice requests."""

    FLOW = 1
    QUEUE = 5
    GROUP_DESC = 7
    METER_CONFIG = 10
    METER_FEATURES = 11
    PORT_DESC = 13


_REPLY_MORE = 0x0001


class ProtocolViolation(Exception):
    """The peer does not speak OpenFlow 1.3 in a form that Sluice can read."""


def message(kind: int, body: bytes = b"", xid: int = 0) -> bytes:
    """Return a whole message: the header and the body."""
    return HEADER.pack(VERSION, kind, HEADER.size + len(body), xid) + body


class Frame(NamedTuple):
    """One OpenFlow message with its header."""

    version: int
    kind: int
    xid: int
    data: bytes


@dataclass
class Framer:
    """Cuts a byte stream into messages."""

    _buffer: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Append received bytes and yield the messages that are complete."""
        self._buffer += data
        start, end = 0, len(self._buffer)
        with memoryview(self._buffer) as view:
            while end - start >= HEADER.size:
                frame_end = start + _length(self._buffer, start)
                if frame_end > end:
                    break
                frame = bytes(view[start:frame_end])
                yield Frame(frame[0], frame[1], int.from_bytes(frame[4:8], "big"), frame)
                start = frame_end
        del self._buffer[:start]


def u16(data: bytes | bytearray, at: int) -> int:
    """Return the 16-bit number in network byte order at an offset."""
    return data[at] << 8 | data[at + 1]


def _length(data: bytes | bytearray, start: int) -> int:
    # The version is checked first, because an HTTP request has none. Read as a length, its bytes
    # could keep the connection waiting for a message that never ends.
    if data[start] not in _VERSIONS:
        raise ProtocolViolation(
            f"a message begins with {data[start]:#04x}; an OpenFlow version is 0x01 to 0x06"
        )
    length = u16(data, start + 2)
    if length < HEADER.size:
        raise ProtocolViolation(
            f"a message header gives a length of {length} bytes; the minimum is {HEADER.size}"
        )
    return length


# ── Replies in several parts ───────────────────────────────────────────────────────────────────


class Part(NamedTuple):
    """One message of a multipart reply."""

    stats: int
    """Type of the statistics."""
    more: bool
    """Whether more parts follow."""
    body: bytes | memoryview


def multipart(frame: Frame) -> Part:
    """Read the header of a multipart reply."""
    if len(frame.data) < MULTIPART_HEADER_BYTES:
        raise ProtocolViolation(
            f"a multipart reply has {len(frame.data)} bytes; its header has {MULTIPART_HEADER_BYTES}"
        )
    more = bool(u16(frame.data, 10) & _REPLY_MORE)
    return Part(u16(frame.data, 8), more, memoryview(frame.data)[MULTIPART_HEADER_BYTES:])


_MAX_UNFINISHED = 8
_PART_BYTES = 256
"""Memory of a part besides its bytes. Without it, empty parts could fill the memory uncounted."""


@dataclass
class Replies:
    """Joins the parts of multipart replies; a few may be incomplete at the same time."""

    _parts: dict[tuple[int, int], list[bytes | memoryview]] = field(default_factory=dict)
    _size_bytes: int = 0

    def add(self, xid: int, part: Part) -> bytes | None:
        """Return the whole body when the last part has arrived; None before that."""
        key = (xid, part.stats)
        self._parts.setdefault(key, []).append(part.body)
        self._size_bytes += len(part.body) + _PART_BYTES
        if self._size_bytes > MAX_REPLY_BYTES or len(self._parts) > _MAX_UNFINISHED:
            raise ProtocolViolation(
                f"multipart replies do not end: {self._size_bytes} bytes, {len(self._parts)} unfinished;"
                f" at most {MAX_REPLY_BYTES} bytes and {_MAX_UNFINISHED} are allowed"
            )
        if part.more:
            return None
        parts = self._parts.pop(key)
        self._size_bytes -= sum(len(body) + _PART_BYTES for body in parts)
        return b"".join(parts)


# ── Entries of statistics replies ───────────────────────────────────────────────────────────────────


FLOW_FIXED_BYTES = 48
"""Of a flow statistics entry: what precedes the match (1.3.5, section 7.3.5.2)."""
_FLOW_ENTRY = struct.Struct("!HBxIIHHHHxxxxQQQ")
_MATCH_HEADER_BYTES = 4
_OXM_HEADER_BYTES = 4
_HAVE_ACTIONS = (3, 4, 5)
"""Types of instructions with actions: write, apply, clear."""
_INSTRUCTION_BYTES = {1: 8, 2: 24, 6: 8}
"""The length of a goto, of metadata and of a meter. os-ken takes these, whatever the instruction says."""
_OUTPUT, _SET_FIELD, _EXPERIMENTER = 0, 25, 0xFFFF
"""Types of actions that are longer than 8 bytes."""
_OXM_BASIC = 0x8000
_FIELD_BYTES = {0: 4, 3: 6, 4: 6, 5: 2, 8: 1, 10: 1, 22: 4, 26: 16, 27: 16}
_FIELD_BYTES |= {6: 2, 11: 4, 12: 4, 13: 2, 14: 2, 15: 2, 16: 2}
"""Size of each basic field that is read, by its number (1.3.5, table 12)."""


def _items(data: bytes, start: int, end: int, *, length_at: int, at_least: int, what: str) -> Iterator[int]:
    """Yield the offsets of the items of a list, each of which carries its own length."""
    while start < end:
        if end - start < at_least:
            raise ProtocolViolation(f"{what} is cut off: {end - start} bytes of at least {at_least}")
        length = u16(data, start + length_at)
        if length < at_least or start + length > end:
            raise ProtocolViolation(
                f"{what} gives its length as {length} bytes; {at_least} to {end - start} are possible"
            )
        yield start
        start += length


def flow_entry_offsets(body: bytes, start: int = 0) -> Iterator[int]:
    """Yield the offsets of the entries of a flow statistics reply."""
    at_least = FLOW_FIXED_BYTES + 8
    return _items(body, start, len(body), length_at=0, at_least=at_least, what="a flow statistics entry")


class FlowEntry(NamedTuple):
    """An entry of a flow statistics reply: a rule and its counters."""

    table: int
    priority: int
    timeouts: tuple[int, int]
    """Idle and hard timeout in seconds; 0 is none."""
    cookie: int
    duration_s: float
    packets: int
    size_bytes: int
    tail: bytes
    """Match and instructions. `check_tail` has not seen them."""

    @property
    def match(self) -> bytes:
        """The fields of the match. `match_fields` has not seen them. Raises ProtocolViolation."""
        length = u16(self.tail, 2)
        if not _MATCH_HEADER_BYTES <= length <= len(self.tail):
            raise _bad_match(length, len(self.tail))
        return self.tail[_MATCH_HEADER_BYTES:length]


def flow_entries(body: bytes) -> Iterator[FlowEntry]:
    """Yield the entries of a flow statistics reply."""
    for start in flow_entry_offsets(body):
        length, table, seconds, ns, priority, idle, hard, _, *rest = _FLOW_ENTRY.unpack_from(body, start)
        cookie, packets, size_bytes = rest
        tail = body[start + FLOW_FIXED_BYTES : start + length]
        yield FlowEntry(table, priority, (idle, hard), cookie, seconds + ns / 1e9, packets, size_bytes, tail)


def _bad_match(length: int, at_most: int) -> ProtocolViolation:
    return ProtocolViolation(
        f"a match gives its length as {length} bytes; {_MATCH_HEADER_BYTES} to {at_most} are possible"
    )


def match_fields(match: bytes) -> dict[int, bytes]:
    """Return the values of the basic fields by number (1.3.5, section 7.2.3.7).

    Masked fields and the fields of experimenters are left out. Raises ProtocolViolation.
    """
    _check_fields(match, 0, len(match))
    fields, at = {}, 0
    while at < len(match):
        end = at + _OXM_HEADER_BYTES + match[at + 3]
        if u16(match, at) == _OXM_BASIC and not match[at + 2] & 1:
            number, size = match[at + 2] >> 1, end - at - _OXM_HEADER_BYTES
            if size != _FIELD_BYTES.get(number, size):
                raise ProtocolViolation(
                    f"match field {number} has {size} bytes instead of {_FIELD_BYTES[number]}"
                )
            fields[number] = match[at + _OXM_HEADER_BYTES : end]
        at = end
    return fields


def check_tail(tail: bytes) -> None:
    """Check the match and the instructions of a flow statistics entry."""
    match_length = u16(tail, 2)
    instructions = (match_length + 7) // 8 * 8
    if match_length < _MATCH_HEADER_BYTES or instructions > len(tail):
        raise _bad_match(match_length, len(tail))
    _check_fields(tail, _MATCH_HEADER_BYTES, match_length)
    for at in _items(tail, instructions, len(tail), length_at=2, at_least=8, what="an instruction"):
        kind, length = u16(tail, at), u16(tail, at + 2)
        if length != _INSTRUCTION_BYTES.get(kind, length):
            raise ProtocolViolation(f"an instruction of type {kind} gives its length as {length} bytes")
        if kind in _HAVE_ACTIONS:
            _check_actions(tail, at + 8, at + length)


def _check_fields(data: bytes, start: int, end: int) -> None:
    while start < end:
        if end - start < _OXM_HEADER_BYTES or start + _OXM_HEADER_BYTES + data[start + 3] > end:
            raise ProtocolViolation(f"a match field is cut off: {end - start} bytes remain for it")
        start += _OXM_HEADER_BYTES + data[start + 3]


def _check_actions(data: bytes, start: int, end: int) -> None:
    for at in _items(data, start, end, length_at=2, at_least=8, what="an action"):
        kind, length = u16(data, at), u16(data, at + 2)
        fixed = kind not in (_SET_FIELD, _EXPERIMENTER)
        if length % 8 or (fixed and length != (16 if kind == _OUTPUT else 8)):
            raise ProtocolViolation(f"an action of type {kind} gives its length as {length} bytes")


def group_entry_offsets(body: bytes) -> Iterator[int]:
    """Yield the offsets of the entries of a group description reply, each checked throughout."""
    for start in _items(body, 0, len(body), length_at=0, at_least=8, what="a group"):
        end = start + u16(body, start)
        for bucket in _items(body, start + 8, end, length_at=0, at_least=16, what="a bucket"):
            _check_actions(body, bucket + 16, bucket + u16(body, bucket))
        yield start


def meter_entry_offsets(body: bytes) -> Iterator[int]:
    """Yield the offsets of the entries of a meter configuration reply."""
    return _items(body, 0, len(body), length_at=0, at_least=8, what="a meter")
