# SPDX-License-Identifier: Apache-2.0
"""What travels on a flow's connection: a header in front of the payload, and the receiver's notice of completion.

A flow of n bytes is n bytes of TCP payload: the header and n - HEADER_BYTES bytes whose content means nothing. So no
flow is shorter than its header; schedules with shorter flows are refused. An endless flow's size is the least that it
has; it ends with its FIN. All integers in network order.

    header  magic version flags - sequence:u64 size_bytes:u64 started_ns:u64 deadline_us:u64
    notice  magic version flags - sequence:u64 arrived_ns:u64 read_ns:u64
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

VERSION = 2
PORT = 5001

_HEADER = struct.Struct("!4sBBxxQQQQ")
_NOTICE = struct.Struct("!4sBBxxQQQ")
_HEADER_MAGIC, _NOTICE_MAGIC = b"SLCF", b"SLCN"

HEADER_BYTES = _HEADER.size
NOTICE_BYTES = _NOTICE.size

_ENDS_WITH_FIN = 1
_ENDLESS = 2
_KERNEL_STAMP = 1


class BadMessage(Exception):
    """The peer does not speak this protocol, or not this version."""


@dataclass(frozen=True)
class Header:
    """What the sender says in front of the payload."""

    sequence: int
    """The flow's number in its sender's schedule."""
    size_bytes: int
    """TCP payload of the whole flow, this header included."""
    started_ns: int
    """CLOCK_REALTIME of the sender right before connect(), or before the first send on an open connection."""
    deadline_us: int
    """From the start; 0 without a deadline."""
    ends_with_fin: bool
    """The connection carries this one flow: the FIN follows the last byte, and the notice follows the FIN."""
    endless: bool = False
    """`size_bytes` is the least that comes; the FIN tells the end."""

    def pack(self) -> bytes:
        flags = (_ENDS_WITH_FIN if self.ends_with_fin else 0) | (_ENDLESS if self.endless else 0)
        return _HEADER.pack(
            _HEADER_MAGIC, VERSION, flags, self.sequence, self.size_bytes, self.started_ns, self.deadline_us
        )

    @classmethod
    def unpack(cls, data: bytes | bytearray) -> Header:
        """Raises BadMessage."""
        magic, version, flags, sequence, size_bytes, started_ns, deadline_us = _HEADER.unpack(data)
        _check(magic, _HEADER_MAGIC, version)
        if size_bytes < HEADER_BYTES:
            raise BadMessage(f"a flow of {size_bytes} bytes is shorter than its header")
        fin, endless = bool(flags & _ENDS_WITH_FIN), bool(flags & _ENDLESS)
        if endless and not fin:
            raise BadMessage("an endless flow that does not end with a FIN never ends")
        return cls(sequence, size_bytes, started_ns, deadline_us, fin, endless)


@dataclass(frozen=True)
class Notice:
    """What the receiver answers when it has the whole flow."""

    sequence: int
    arrived_ns: int
    """CLOCK_REALTIME of the last byte's arrival."""
    read_ns: int
    """CLOCK_REALTIME when user space had read it."""
    kernel_stamp: bool
    """`arrived_ns` is the kernel's stamp of the packet; otherwise it is `read_ns`."""

    def pack(self) -> bytes:
        flags = _KERNEL_STAMP if self.kernel_stamp else 0
        return _NOTICE.pack(_NOTICE_MAGIC, VERSION, flags, self.sequence, self.arrived_ns, self.read_ns)

    @classmethod
    def unpack(cls, data: bytes | bytearray) -> Notice:
        """Raises BadMessage."""
        magic, version, flags, sequence, arrived_ns, read_ns = _NOTICE.unpack(data)
        _check(magic, _NOTICE_MAGIC, version)
        return cls(sequence, arrived_ns, read_ns, bool(flags & _KERNEL_STAMP))


def _check(magic: bytes, expected: bytes, version: int) -> None:
    if magic != expected:
        raise BadMessage(f"starts with {magic!r}, not {expected!r}")
    if version != VERSION:
        raise BadMessage(f"speaks version {version}, not {VERSION}")
