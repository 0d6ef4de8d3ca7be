# SPDX-License-Identifier: Apache-2.0
"""Counters of an interface's qdiscs or classes, from the kernel's own messages.

An agent reads them every second, and pyroute2 takes ten times as much CPU time for it.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

_HEADER = struct.Struct("=IHHII")
"""Length, type, flags, sequence number, port."""
_TCMSG = struct.Struct("=B3xiIII")
"""Family, interface, handle, parent, info."""
_ATTRIBUTE = struct.Struct("=HH")
_BASIC, _QUEUE = struct.Struct("=Q"), struct.Struct("=III")
_REQUEST, _DUMP = 0x1, 0x300
_ERROR, _DONE = 2, 3
_STATS2, _STATS_BASIC, _STATS_QUEUE = 7, 1, 3
_TYPE_MASK = 0x3FFF
_MOST_BYTES = 1 << 16


class Kind(IntEnum):
    """The request that asks for them."""

    QDISCS = 38
    CLASSES = 42


class QueueCounters(NamedTuple):
    """Counters of one qdisc or class."""

    handle: int
    parent: int
    sent_bytes: int
    waiting_bytes: int
    dropped: int


def queue_counters(kind: Kind, interface: int) -> list[QueueCounters]:
    """Return the counters of an interface of the current network namespace, by its index. Raises OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        length = _HEADER.size + _TCMSG.size
        header = _HEADER.pack(length, kind, _REQUEST | _DUMP, 0, 0)
        kernel.send(header + _TCMSG.pack(0, interface, 0, 0, 0))
        return [counters for message in _messages(kernel) for counters in _of_interface(message, interface)]


def _messages(kernel: socket.socket) -> Iterator[bytes]:
    """Yield the messages of the answer, without their headers."""
    while True:
        data, at = kernel.recv(_MOST_BYTES), 0
        while at < len(data):
            length, kind, *_ = _HEADER.unpack_from(data, at)
            body = data[at + _HEADER.size : at + length]
            if kind == _ERROR:
                code = -struct.unpack_from("=i", body)[0]
                raise OSError(code, os.strerror(code))
            if kind == _DONE:
                return
            yield body
            at += _aligned(length)


def _of_interface(message: bytes, interface: int) -> Iterator[QueueCounters]:
    _, index, handle, parent, _ = _TCMSG.unpack_from(message)
    if index != interface:
        return
    statistics = _attributes(_attributes(message[_TCMSG.size :]).get(_STATS2, b""))
    basic, queue = statistics.get(_STATS_BASIC), statistics.get(_STATS_QUEUE)
    sent_bytes = _BASIC.unpack_from(basic)[0] if basic else 0
    _, waiting_bytes, dropped = _QUEUE.unpack_from(queue) if queue else (0, 0, 0)
    yield QueueCounters(handle, parent, sent_bytes, waiting_bytes, dropped)


def _attributes(data: bytes) -> dict[int, bytes]:
    found, at = {}, 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        found[kind & _TYPE_MASK] = data[at + _ATTRIBUTE.size : at + length]
        at += max(_aligned(length), _ATTRIBUTE.size)
    return found


def _aligned(length: int) -> int:
    return (length + 3) & ~3
