# SPDX-License-Identifier: Apache-2.0
"""OpenFlow 1.3 messages as bytes: written with a header, and cut out of a byte stream.

The peer may be broken or hostile, so every length is checked before anyone relies on it. Malformed
bytes raise ProtocolViolation, which ends that connection and no other.
"""

from __future__ import annotations

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
                yield _frame(bytes(view[start:frame_end]))
                start = frame_end
        del self._buffer[:start]

    @property
    def partial(self) -> bool:
        """Whether the buffer holds part of a message."""
        return bool(self._buffer)


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


def _frame(data: bytes) -> Frame:
    return Frame(data[0], data[1], int.from_bytes(data[4:8], "big"), data)


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
