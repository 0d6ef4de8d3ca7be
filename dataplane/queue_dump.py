# SPDX-License-Identifier: Apache-2.0
"""What the kernel says of all qdiscs or classes at once, in its own messages.

An agent reads them every second, and pyroute2 takes ten times as much CPU time for it. A question about a single class
would be reported to every listener for changes, such as the port agent.
"""

import os
import socket
import struct
from collections.abc import Iterator
from enum import IntEnum

_HEADER = struct.Struct("=IHHII")
"""struct nlmsghdr: length, type, flags, sequence number, port."""
_TCMSG = struct.Struct("=B3xiIII")
"""struct tcmsg: family, interface, handle, parent, info."""
_ATTRIBUTE = struct.Struct("=HH")
_TYPE_MASK = 0x3FFF
_REQUEST, _DUMP = 0x1, 0x300
_ERROR, _DONE = 2, 3
_MOST_BYTES = 1 << 16


class Kind(IntEnum):
    """The request that asks for them."""

    QDISCS = 38
    CLASSES = 42


def dump(kind: Kind, interface: int = 0) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield interface, handle, parent and attributes of each, in this network namespace. Raises OSError.

    `interface`: an index. The kernel lists classes of one interface only, and may list other qdiscs all the same.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        header = _HEADER.pack(_HEADER.size + _TCMSG.size, kind, _REQUEST | _DUMP, 0, 0)
        kernel.send(header + _TCMSG.pack(0, interface, 0, 0, 0))
        while True:
            data, at = kernel.recv(_MOST_BYTES), 0
            while at < len(data):
                length, message, *_ = _HEADER.unpack_from(data, at)
                body = data[at + _HEADER.size : at + length]
                if message == _DONE:
                    return
                if message == _ERROR:
                    code = -struct.unpack_from("=i", body)[0]
                    raise OSError(code, os.strerror(code))
                _, index, handle, parent, _ = _TCMSG.unpack_from(body)
                yield index, handle, parent, body[_TCMSG.size :]
                at += _aligned(length)


def attributes(data: bytes) -> dict[int, bytes]:
    """Return the values of attributes by their types."""
    values, at = {}, 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        values[kind & _TYPE_MASK] = data[at + _ATTRIBUTE.size : at + length]
        at += max(_aligned(length), _ATTRIBUTE.size)
    return values


def _aligned(length: int) -> int:
    return (length + 3) & ~3
