# SPDX-License-Identifier: Apache-2.0
"""OpenFlow 1.3 bytes as they come from the network, before anyone trusts a length in them.

os-ken 4.2's parsers advance by the length fields that they read, and never end on a length of 0; so whatever comes
from outside is checked here first: frames, entries of a statistics reply, and the lists nested in those. Counters are
read as numpy columns: a poll's cost is one copy, not one object a rule.

Pure: bytes in, values out. Everything malformed raises ProtocolViolation, which ends that connection alone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

VERSION = 0x04
_VERSIONS = range(0x01, 0x07)
HEADER_BYTES = 8
MULTIPART_HEADER_BYTES = 16
MAX_REPLY_BYTES = 64 << 20
"""More than any switch holds for us; a reply that grows beyond it is an attack or a fault."""

HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, EXPERIMENTER = 0, 1, 2, 3, 4
FEATURES_REPLY, PACKET_IN, FLOW_REMOVED, PORT_STATUS = 6, 10, 11, 12
MULTIPART_REPLY, BARRIER_REPLY, ROLE_REPLY = 19, 21, 25

STATS_FLOW, STATS_QUEUE, STATS_GROUP_DESC, STATS_PORT_DESC = 1, 5, 7, 13

_REPLY_MORE = 0x0001


class ProtocolViolation(Exception):
    """The peer does not speak OpenFlow 1.3 as we can understand it."""


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
        """Take what has arrived and yield the messages that are complete."""
        self._buffer += data
        start, end = 0, len(self._buffer)
        with memoryview(self._buffer) as view:
            while end - start >= HEADER_BYTES:
                frame_end = start + _length(self._buffer, start)
                if frame_end > end:
                    break
                yield _frame(bytes(view[start:frame_end]))
                start = frame_end
        del self._buffer[:start]

    @property
    def partial(self) -> bool:
        """A message has begun and has not ended."""
        return bool(self._buffer)


def _u16(data: bytes | bytearray, at: int) -> int:
    return data[at] << 8 | data[at + 1]


def _length(data: bytes | bytearray, start: int) -> int:
    """The length of a message from its header, as soon as that is there: whoever speaks HTTP is told apart by it."""
    if data[start] not in _VERSIONS:
        raise ProtocolViolation(f"a message begins with {data[start]:#04x}, which is no version of OpenFlow")
    length = _u16(data, start + 2)
    if length < HEADER_BYTES:
        raise ProtocolViolation(f"a message says that it is {length} bytes long; a header has {HEADER_BYTES}")
    return length


def _frame(data: bytes) -> Frame:
    return Frame(data[0], data[1], int.from_bytes(data[4:8], "big"), data)


# ── Replies in several parts ───────────────────────────────────────────────────────────────────────────────────────


class Part(NamedTuple):
    stats: int
    more: bool
    body: bytes | memoryview


def multipart(frame: Frame) -> Part:
    """Statistics type, whether more parts follow, and the body."""
    if len(frame.data) < MULTIPART_HEADER_BYTES:
        raise ProtocolViolation("a statistics reply ends within its header")
    flags = _u16(frame.data, 10)
    return Part(
        _u16(frame.data, 8), bool(flags & _REPLY_MORE), memoryview(frame.data)[MULTIPART_HEADER_BYTES:]
    )


@dataclass
class Replies:
    """Joins the parts of statistics replies; at most a few are under way at once."""

    _parts: dict[tuple[int, int], list[bytes | memoryview]] = field(default_factory=dict)
    _size_bytes: int = 0

    def add(self, xid: int, part: Part) -> bytes | None:
        """The whole body once the last part is there."""
        key = (xid, part.stats)
        self._parts.setdefault(key, []).append(part.body)
        self._size_bytes += len(part.body) + _PART_BYTES
        if self._size_bytes > MAX_REPLY_BYTES or len(self._parts) > 8:
            raise ProtocolViolation("statistics replies without end")
        if part.more:
            return None
        parts = self._parts.pop(key)
        self._size_bytes -= sum(len(body) + _PART_BYTES for body in parts)
        return b"".join(parts)


_PART_BYTES = 256
"""What a part takes beside its bytes: many empty ones are no way to fill the memory."""


# ── Lists of variable length ───────────────────────────────────────────────────────────────────────────────────────


def _items(data: bytes, start: int, end: int, *, length_at: int, at_least: int, what: str) -> Iterator[int]:
    """Offsets of the items of a list, each of which carries its own length."""
    while start < end:
        if end - start < at_least:
            raise ProtocolViolation(f"{what} is cut off")
        length = _u16(data, start + length_at)
        if length < at_least or start + length > end:
            raise ProtocolViolation(f"{what} says that it is {length} bytes long")
        yield start
        start += length


def _check_actions(data: bytes, start: int, end: int) -> None:
    for _ in _items(data, start, end, length_at=2, at_least=8, what="an action"):
        pass


FLOW_FIXED = 48
_APPLY_OR_WRITE_ACTIONS = (3, 4)


class FlowEntry(NamedTuple):
    """A flow statistics entry: what is about the rule, but its counters; and the bytes that say what the rule does."""

    table: int
    priority: int
    timeouts: tuple[int, int]
    cookie: int
    tail: bytes
    """Match and instructions, not yet looked at: `check_tail`."""


def _entries(body: bytes, start: int) -> Iterator[int]:
    what = "a flow statistics entry"
    return _items(body, start, len(body), length_at=0, at_least=FLOW_FIXED + 8, what=what)


_FLOW_ENTRY = struct.Struct("!HBxIIHHHHxxxxQQQ")


def flow_entries(body: bytes) -> Iterator[FlowEntry]:
    """The entries of a flow statistics reply."""
    for start in _entries(body, 0):
        length, table, _, _, priority, idle, hard, _, cookie, _, _ = _FLOW_ENTRY.unpack_from(body, start)
        tail = body[start + FLOW_FIXED : start + length]
        yield FlowEntry(table, priority, (idle, hard), cookie, tail)


class FlowRecord(NamedTuple):
    """What a flow statistics entry says about the packets of a rule that was learned from one of them."""

    cookie: int
    duration_s: float
    packets: int
    size_bytes: int
    match: bytes
    """Its fields, not yet looked at: `match_fields`."""


def flow_records(body: bytes) -> Iterator[FlowRecord]:
    """The entries of a flow statistics reply with their counters."""
    for start in _entries(body, 0):
        length, _, seconds, ns, *_, cookie, packets, size_bytes = _FLOW_ENTRY.unpack_from(body, start)
        match_length = _u16(body, start + FLOW_FIXED + 2)
        if not 4 <= match_length <= length - FLOW_FIXED:
            raise ProtocolViolation(f"a match says that it is {match_length} bytes long")
        match = body[start + FLOW_FIXED + 4 : start + FLOW_FIXED + match_length]
        yield FlowRecord(cookie, seconds + ns / 1e9, packets, size_bytes, match)


_OXM_BASIC = 0x8000


def match_fields(match: bytes) -> dict[int, bytes]:
    """The values of OpenFlow's own fields, by their numbers (1.3.5, section 7.2.3.7); masks and others are left out."""
    _check_fields(match, 0, len(match))
    fields, at = {}, 0
    while at < len(match):
        end = at + 4 + match[at + 3]
        if _u16(match, at) == _OXM_BASIC and not match[at + 2] & 1:
            fields[match[at + 2] >> 1] = match[at + 4 : end]
        at = end
    return fields


def check_tail(tail: bytes) -> None:
    """Check the match and the instructions of a flow statistics entry throughout."""
    match_length = _u16(tail, 2)
    instructions = (match_length + 7) // 8 * 8
    if match_length < 4 or instructions > len(tail):
        raise ProtocolViolation(f"a match says that it is {match_length} bytes long")
    _check_fields(tail, 4, match_length)
    for at in _items(tail, instructions, len(tail), length_at=2, at_least=8, what="an instruction"):
        if _u16(tail, at) in _APPLY_OR_WRITE_ACTIONS:
            _check_actions(tail, at + 8, at + _u16(tail, at + 2))


def _check_fields(data: bytes, start: int, end: int) -> None:
    while start < end:
        if end - start < 4 or start + 4 + data[start + 3] > end:
            raise ProtocolViolation("a match field is cut off")
        start += 4 + data[start + 3]


def group_entries(body: bytes) -> Iterator[int]:
    """Offsets of the entries of a group description reply, each checked throughout."""
    for start in _items(body, 0, len(body), length_at=0, at_least=8, what="a group"):
        end = start + _u16(body, start)
        for bucket in _items(body, start + 8, end, length_at=0, at_least=16, what="a bucket"):
            _check_actions(body, bucket + 16, bucket + _u16(body, bucket))
        yield start


# ── Counters as columns ────────────────────────────────────────────────────────────────────────────────────────────

_QUEUE = np.dtype(
    [
        ("port", ">u4"),
        ("queue", ">u4"),
        ("bytes", ">u8"),
        ("packets", ">u8"),
        ("errors", ">u8"),
        ("duration_s", ">u4"),
        ("duration_ns", ">u4"),
    ]
)


class FlowCounters(NamedTuple):
    """Columns of a flow statistics reply."""

    cookies: npt.NDArray[np.uint64]
    packets: npt.NDArray[np.uint64]
    size_bytes: npt.NDArray[np.uint64]


_MOST_RUNS = 64
"""A table of ours has two or three: all of its entries but the last resort's are equally long."""


def flow_counters(body: bytes) -> FlowCounters:
    """Cookies, packet and byte counts of a flow statistics reply."""
    runs = [np.empty(0, _row_of(FLOW_FIXED))]
    at = 0
    while at < len(body) and len(runs) < _MOST_RUNS:
        runs.append(_equal_rows(body, at))
        at += len(runs[-1]) * runs[-1].itemsize
    if at < len(body):
        runs.append(_rows_one_by_one(body, at))
    return FlowCounters(
        *(
            np.concatenate([rows[name] for rows in runs]).astype(np.uint64)
            for name in ("cookie", "packets", "bytes")
        )
    )


def entry_count(body: bytes) -> int:
    """How many entries a flow statistics reply has."""
    at = count = runs = 0
    while at < len(body) and runs < _MOST_RUNS:
        rows = _equal_rows(body, at)
        at, count, runs = at + len(rows) * rows.itemsize, count + len(rows), runs + 1
    return count + (len(list(_entries(body, at))) if at < len(body) else 0)


def _rows_one_by_one(body: bytes, start: int) -> npt.NDArray[np.void]:
    starts = _entries(body, start)
    return np.frombuffer(b"".join(body[s : s + FLOW_FIXED] for s in starts), _row_of(FLOW_FIXED))


def _row_of(size: int) -> np.dtype[np.void]:
    """The start of a flow statistics entry of that size; version 1.3.5, section 7.3.5.2."""
    return np.dtype(
        {
            "names": ["length", "cookie", "packets", "bytes"],
            "formats": [">u2", ">u8", ">u8", ">u8"],
            "offsets": [0, 24, 32, 40],
            "itemsize": size,
        }
    )


def _equal_rows(body: bytes, start: int) -> npt.NDArray[np.void]:
    """The entries from there on that are as long as the first: those of one table are, but for a few."""
    next(_entries(body, start))
    size = _u16(body, start)
    rows = np.frombuffer(body, _row_of(size), count=(len(body) - start) // size, offset=start)
    other = rows["length"] != size
    return rows[: other.argmax()] if other.any() else rows


def queue_counters(body: bytes) -> npt.NDArray[np.void]:
    """Rows (port, queue, bytes, packets, …) of a queue statistics reply."""
    if len(body) % _QUEUE.itemsize:
        raise ProtocolViolation("a queue statistics entry is cut off")
    return np.frombuffer(body, _QUEUE)


# ── Roles ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_ROLE_REPLY = struct.Struct("!IxxxxQ")


class Role(NamedTuple):
    role: int
    generation: int


def role_reply(frame: Frame) -> Role:
    """What the switch takes this controller for (1.3.5, section 7.3.9)."""
    if len(frame.data) != HEADER_BYTES + _ROLE_REPLY.size:
        raise ProtocolViolation("a role reply of the wrong length")
    return Role(*_ROLE_REPLY.unpack_from(frame.data, HEADER_BYTES))
