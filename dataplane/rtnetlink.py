# SPDX-License-Identifier: Apache-2.0
"""Interfaces, qdiscs, classes, filters and routes in the kernel's own messages (rtnetlink(7)): what there is, and how
to make it again.

The kernel tells of an object the attributes with which one makes it. An agent reads all queues every second. The
library pyroute2 took ten times as much CPU time for it, and each of its connections left memory behind. A question
about a single class would be reported to every listener for changes, such as the port agent.
"""

import os
import socket
import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum

_HEADER = struct.Struct("=IHHII")
"""struct nlmsghdr: length, type, flags, sequence number, port."""
TCMSG = struct.Struct("=B3xiIII")
"""struct tcmsg: family, interface, handle, parent, info."""
_IFINFO = struct.Struct("=BxHiII")
"""struct ifinfomsg: family, type, index, flags, mask of flags."""
ADDRESS, MTU, GSO_MAX_SEGMENTS, GSO_MAX_BYTES = 1, 4, 40, 41
"""Attributes of an interface."""
KIND, OPTIONS = 1, 2
"""Attributes of a qdisc, a class or a filter. The kind ends with a zero byte."""
_ATTRIBUTE = struct.Struct("=HH")
_TYPE_MASK = 0x3FFF
_REQUEST, _ACK, _REPLACE, _CREATE, _DUMP = 0x1, 0x4, 0x100, 0x400, 0x300
_ERROR, _DONE = 2, 3
_MOST_BYTES = 1 << 16


class Kind(IntEnum):
    """What a message is about. The number is that of the request that makes one; a question has two more."""

    INTERFACES = 16
    ROUTES = 24
    QDISCS = 36
    CLASSES = 40
    FILTERS = 44


def dump(kind: Kind, asked: bytes) -> Iterator[bytes]:
    """Yield what the kernel says of each object in this network namespace: a struct and its attributes. Raises OSError.

    `asked`: the struct of a question, for example a tcmsg.
    """
    return _answers(kind + 2, _DUMP, asked)


def interface(name: str) -> tuple[int, dict[int, bytes]]:
    """Return the hardware type (ARPHRD_*) and the attributes of an interface. Raises OSError."""
    asked = _IFINFO.pack(0, 0, socket.if_nametoindex(name), 0, 0)
    (body,) = _answers(Kind.INTERFACES + 2, _ACK, asked)
    return _IFINFO.unpack_from(body)[1], attributes(body[_IFINFO.size :])


def make(kind: Kind, content: bytes, *, replaces: bool = False) -> None:
    """Make an object from a struct and its attributes. Raises OSError."""
    list(_answers(kind, _ACK | _CREATE | replaces * _REPLACE, content))


def remove(kind: Kind, content: bytes) -> None:
    """Remove the object of this struct and these attributes. Raises OSError."""
    list(_answers(kind + 1, _ACK, content))


def all_queues(kind: Kind, interface: int = 0) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield interface, handle, parent and attributes of each qdisc or class. Raises OSError.

    `interface`: an index. The kernel lists classes of one interface only, and may list other qdiscs all the same.
    """
    for body in dump(kind, TCMSG.pack(0, interface, 0, 0, 0)):
        _, index, handle, parent, _ = TCMSG.unpack_from(body)
        yield index, handle, parent, body[TCMSG.size :]


def make_queue(kind: Kind, interface: int, handle: int, parent: int, content: bytes) -> None:
    """Make a qdisc or a class at an interface from its attributes. Raises OSError."""
    make(kind, TCMSG.pack(0, interface, handle, parent, 0) + content)


def _answers(message: int, flags: int, content: bytes) -> Iterator[bytes]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.send(_HEADER.pack(_HEADER.size + len(content), message, flags | _REQUEST, 0, 0) + content)
        while True:
            data, at = kernel.recv(_MOST_BYTES), 0
            while at < len(data):
                length, answer, *_ = _HEADER.unpack_from(data, at)
                body = data[at + _HEADER.size : at + length]
                if answer == _ERROR and (code := -struct.unpack_from("=i", body)[0]):
                    raise OSError(code, os.strerror(code))
                if answer in (_DONE, _ERROR):
                    return
                yield body
                at += _aligned(length)


def attributes(data: bytes) -> dict[int, bytes]:
    """Return the values of attributes by their types."""
    values, at = {}, 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        values[kind & _TYPE_MASK] = data[at + _ATTRIBUTE.size : at + length]
        at += max(_aligned(length), _ATTRIBUTE.size)
    return values


def packed(values: Mapping[int, bytes]) -> bytes:
    """Return these attributes as they are in a message."""
    return b"".join(
        _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value.ljust(_aligned(len(value)), b"\0")
        for kind, value in values.items()
    )


def _aligned(length: int) -> int:
    return (length + 3) & ~3
