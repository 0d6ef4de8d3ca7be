# SPDX-License-Identifier: Apache-2.0
"""Qdiscs of other programs at ports: they stay, or Sluice replaces them and makes them again when it leaves.

The kernel tells of a qdisc the attributes with which one makes it: its kind and its options (rtnetlink(7)). A file
holds them from before the qdisc is replaced until it is there again, so a port agent that was killed can give it back,
too. Packets that wait in a qdisc are lost with it. Filters of tc would be, too, so a qdisc with filters stays.
"""

import json
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sluice.hostagent.port.settings import read_json, write_json
from sluice.policy.errors import SluiceError
from sluice.runtime.command import run

_NEW_QDISC, _GET_QDISC, _NEW_CLASS, _GET_CLASS = 36, 38, 40, 42
_REQUEST, _ACK, _DUMP, _CREATE = 1, 4, 0x300, 0x400
_ERROR, _DONE = 2, 3
_ROOT = 0xFFFFFFFF
_HOOKS = 0xFFFF0000
"""The handle of clsact and of ingress, which replace no queue."""
_KIND, _OPTIONS = 1, 2
_HEADER = struct.Struct("=IHHII")
_TCMSG = struct.Struct("=BxxxiIII")
_ATTRIBUTE = struct.Struct("=HH")
_KERNELS_OWN = "0:"
"""The handle of a qdisc that no one has made."""


_WITH_CLASSES = (b"htb\0", b"hfsc\0", b"drr\0", b"qfq\0")
"""Kinds whose classes someone makes. Those of others come with the qdisc."""
_HTB_VERSION_AT, _HTB_VERSION = 16, 3
"""The kernel says 0x30011 there, in the first option of an HTB, and wants 3 to make one (net/sched/sch_htb.c)."""


class _Part(NamedTuple):
    """A qdisc or a class, as a request makes it."""

    is_class: bool
    handle: int
    parent: int
    attributes: str
    """Kind and options, hexadecimal. Empty: it comes with its qdisc."""


class FormerQdiscs:
    """The qdiscs of other programs that Sluice has replaced on this machine."""

    def __init__(self, folder: Path, *, replaces: bool) -> None:
        """`replaces`: whether the operator lets Sluice replace them. The folder is made when it is needed."""
        self._folder, self._replaces = folder, replaces

    def make_room(self, interface: str, root: dict[str, Any]) -> str:
        """Prepare an interface for queues of Sluice. Returns why they must not be made; empty if they may.

        `root`: its qdisc, as `tc -j` writes it. Raises CommandFailed, OSError.
        """
        if root.get("handle") == _KERNELS_OWN or root["kind"] == "noqueue":
            return ""
        shown = f"{interface} has a qdisc of another program, {root['kind']} {root['handle']}, which stays"
        if not self._replaces:
            return (
                f"{shown}; to give the port queues, remove it (tc qdisc del dev {interface} root), or let the port"
                " agent replace it (replace_qdiscs), which makes it again when it leaves"
            )
        parts = list(_read(socket.if_nametoindex(interface)))
        for part in parts:
            if not part.is_class and run(
                ["tc", "filter", "show", "dev", interface, "parent", _name(part.handle)]
            ):
                return f"{shown}, because filters of tc belong to it: tc filter show dev {interface}"
        self._folder.mkdir(parents=True, exist_ok=True)
        write_json(self._file(interface), {"parts": parts})
        return ""

    def restore(self, interface: str) -> None:
        """Make the qdisc again that was here before Sluice, if there was one. Raises SluiceError, OSError."""
        document = read_json(self._file(interface))
        if document is None:
            return
        _make(socket.if_nametoindex(interface), [_Part(*part) for part in document["parts"]])
        self._file(interface).unlink()

    def held(self) -> frozenset[str]:
        """Return the interfaces whose qdisc Sluice has replaced."""
        return frozenset(path.stem for path in self._folder.glob("*.json"))

    def _file(self, interface: str) -> Path:
        return self._folder / f"{interface}.json"


def root_qdiscs() -> dict[str, dict[str, Any]]:
    """Return the root qdisc of each interface. One without any, such as a bridge's, has the kind noqueue."""
    names = [link["ifname"] for link in json.loads(run(["ip", "-j", "link", "show"]))]
    roots = {name: {"kind": "noqueue", "handle": _KERNELS_OWN} for name in names}
    for qdisc in json.loads(run(["tc", "-j", "qdisc", "show"])):
        if qdisc.get("root"):
            roots[qdisc["dev"]] = qdisc
    return roots


def _name(handle: int) -> str:
    return f"{handle >> 16:x}:"


def _read(index: int) -> Iterator[_Part]:
    """Yield the qdiscs and classes of an interface that someone has made."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        for get, is_class in ((_GET_QDISC, False), (_GET_CLASS, True)):
            for content in _ask(kernel, get, _DUMP, _TCMSG.pack(0, index, 0, 0, 0)):
                _, at, handle, parent, _ = _TCMSG.unpack_from(content)
                if at != index or not handle or handle >= _HOOKS:
                    continue
                kept = b"".join(_attributes(content[_TCMSG.size :], (_KIND, _OPTIONS)))
                kind = kept[_ATTRIBUTE.size :]
                if is_class and not kind.startswith(_WITH_CLASSES):
                    kept = b""
                elif not is_class and kind.startswith(b"htb\0"):
                    kept = (
                        kept[:_HTB_VERSION_AT] + struct.pack("=I", _HTB_VERSION) + kept[_HTB_VERSION_AT + 4 :]
                    )
                yield _Part(is_class, handle, parent, kept.hex())


def _make(index: int, parts: list[_Part]) -> None:
    """Make qdiscs and classes, each after what it belongs to. Raises SluiceError."""
    made = {_ROOT}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        while parts:
            ready = [part for part in parts if _belongs_to(part) <= made]
            if not ready:
                raise SluiceError(
                    f"classes without a qdisc: {', '.join(f'{part.handle:x}' for part in parts)}"
                )
            for part in (part for part in ready if part.attributes):
                content = _TCMSG.pack(0, index, part.handle, part.parent, 0) + bytes.fromhex(part.attributes)
                _ask(kernel, _NEW_CLASS if part.is_class else _NEW_QDISC, _ACK | _CREATE, content)
            made |= {part.handle for part in ready}
            parts = [part for part in parts if part not in ready]


def _belongs_to(part: _Part) -> set[int]:
    """The handles of the parent, and of the qdisc that has the class."""
    return {part.parent} | ({part.handle & _HOOKS} if part.is_class else set())


def _ask(kernel: socket.socket, kind: int, flags: int, content: bytes) -> list[bytes]:
    """Send a request, and return what the kernel answers. Raises SluiceError."""
    kernel.send(_HEADER.pack(_HEADER.size + len(content), kind, flags | _REQUEST, 0, 0) + content)
    answers: list[bytes] = []
    while True:
        data = kernel.recv(1 << 16)
        while data:
            length, answer, *_ = _HEADER.unpack_from(data)
            body, data = data[_HEADER.size : length], data[-(-length // 4) * 4 :]
            if answer == _ERROR and (error := struct.unpack_from("=i", body)[0]):
                raise SluiceError(f"the kernel refuses to make the qdisc again: errno {-error}")
            if answer in (_ERROR, _DONE):
                return answers
            answers.append(body)


def _attributes(data: bytes, wanted: tuple[int, ...]) -> Iterator[bytes]:
    """Yield these attributes (struct rtattr), each with its padding."""
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        padded = -(-length // 4) * 4
        if kind in wanted:
            yield data[:length].ljust(padded, b"\0")
        data = data[max(padded, _ATTRIBUTE.size) :]
