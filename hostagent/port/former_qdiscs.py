# SPDX-License-Identifier: Apache-2.0
"""Qdiscs of other programs at ports: they stay, or Sluice replaces them and makes them again when it leaves.

A file holds what the kernel says of a qdisc from before it is replaced until it is there again. So a port agent that
was killed can give it back, too. Packets that wait in a qdisc are lost with it. Filters of tc would be, too, so a qdisc
with filters stays.
"""

import json
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sluice.dataplane.rtnetlink import KIND, OPTIONS, Kind, all_queues, attributes, make_queue, packed
from sluice.hostagent.port.settings import read_json, write_json
from sluice.policy.errors import SluiceError
from sluice.runtime.command import run

_ROOT = 0xFFFFFFFF
_HOOKS = 0xFFFF0000
"""The handle of clsact and of ingress, which replace no queue. Of a class: the part that is its qdisc's handle."""
_KERNELS_OWN = "0:"
"""The handle of a qdisc that no one has made."""
_WITH_CLASSES = (b"htb\0", b"hfsc\0", b"drr\0", b"qfq\0")
"""Kinds whose classes someone makes. Those of others come with the qdisc."""
_HTB_VERSION_AT, _HTB_VERSION = 4, struct.pack("=I", 3)
"""The kernel says 0x30011 there, in the first option of an HTB, and wants 3 to make one (net/sched/sch_htb.c)."""


class _Part(NamedTuple):
    """A qdisc or a class, as a request makes it."""

    kind: Kind
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

        `root`: its qdisc, as `tc -j` writes it. Raises CommandFailed.
        """
        if root.get("handle") == _KERNELS_OWN or root["kind"] == "noqueue":
            return ""
        shown = f"{interface} has a qdisc of another program, {root['kind']} {root['handle']}, which stays"
        if not self._replaces:
            return (
                f"{shown}; to give the port queues, remove it (tc qdisc del dev {interface} root), or let the port"
                " agent replace it (replace_qdiscs), which makes it again when it leaves"
            )
        try:
            parts = list(_read(socket.if_nametoindex(interface)))
            handles = [f"{part.handle >> 16:x}:" for part in parts if part.kind is Kind.QDISCS]
            if any(run(["tc", "filter", "show", "dev", interface, "parent", handle]) for handle in handles):
                return f"{shown}, because filters of tc belong to it: tc filter show dev {interface}"
            self._folder.mkdir(parents=True, exist_ok=True)
            write_json(self._file(interface), {"parts": parts})
        except OSError as error:
            return f"{shown}, because it cannot be noted in {self._folder}: {error}"
        return ""

    def restore(self, interface: str) -> None:
        """Make the qdisc again that was here before Sluice, if there was one. Raises SluiceError, OSError."""
        document = read_json(self._file(interface))
        if document is None:
            return
        _make(
            socket.if_nametoindex(interface), [_Part(Kind(kind), *part) for kind, *part in document["parts"]]
        )
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


def _read(index: int) -> Iterator[_Part]:
    """Yield the qdiscs and classes of an interface that someone has made."""
    for kind in (Kind.QDISCS, Kind.CLASSES):
        for at, handle, parent, said in all_queues(kind, index):
            if at == index and handle and handle < _HOOKS:
                values = attributes(said)
                yield _Part(kind, handle, parent, packed(_to_make(kind, values)).hex())


def _to_make(kind: Kind, values: dict[int, bytes]) -> dict[int, bytes]:
    """Return the attributes of a request that makes such a qdisc or class."""
    name, options = values[KIND], values.get(OPTIONS, b"")
    if kind is Kind.CLASSES and name not in _WITH_CLASSES:
        return {}
    if kind is Kind.QDISCS and name == b"htb\0":
        options = options[:_HTB_VERSION_AT] + _HTB_VERSION + options[_HTB_VERSION_AT + len(_HTB_VERSION) :]
    return {KIND: name, OPTIONS: options}


def _make(index: int, parts: list[_Part]) -> None:
    """Make qdiscs and classes, each after what it belongs to. Raises SluiceError, OSError."""
    made = {_ROOT}
    while parts:
        ready = [part for part in parts if _belongs_to(part) <= made]
        if not ready:
            raise SluiceError(f"classes without a qdisc: {', '.join(f'{part.handle:x}' for part in parts)}")
        for part in ready:
            if part.attributes:
                make_queue(part.kind, index, part.handle, part.parent, bytes.fromhex(part.attributes))
        made |= {part.handle for part in ready}
        parts = [part for part in parts if part not in ready]


def _belongs_to(part: _Part) -> set[int]:
    """The handles of the parent, and of the qdisc that has the class."""
    return {part.parent} | ({part.handle & _HOOKS} if part.kind is Kind.CLASSES else set())
