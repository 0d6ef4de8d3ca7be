# SPDX-License-Identifier: Apache-2.0
"""Attach a BPF program to an interface of the current network namespace: clsact, direct action, a filter each.

The filter goes before those of other programs, because one of theirs may end the chain. They stay, and the kernel runs
them after this one. A second attachment replaces the program's filter in one step, and no packet misses it.
"""

import errno
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

from sluice.dataplane import rtnetlink
from sluice.dataplane.loader import Program
from sluice.dataplane.rtnetlink import TCMSG, Kind
from sluice.policy.errors import EnvironmentLacking, SluiceError

Direction = Literal["ingress", "egress"]

_CLSACT, _AT_CLSACT = 0xFFFF0000, 0xFFFFFFF1
"""Handle and parent of the qdisc. That of ingress has the same."""
_PARENT: dict[Direction, int] = {"ingress": 0xFFFFFFF2, "egress": 0xFFFFFFF3}
_FIRST = 1
"""The priority before all others."""
_HANDLES = range(0x51C0, 0x51C4)
"""Of Sluice's filters. Of two with one priority, the kernel runs the newer one first."""
_ALL_PROTOCOLS = socket.htons(0x0003)
_FD, _NAME, _FLAGS = 6, 7, 8
"""Options of a BPF filter."""
_NUMBER = struct.Struct("=I")
_DIRECT_ACTION = 1
FEW_PACKETS = 10
"""So many may pass beside the hook, for example those of a packet socket with PACKET_QDISC_BYPASS."""


def attach_clsact(ifname: str, program: Program, direction: Direction = "egress") -> None:
    """Attach `program` before all filters of others, and remove its earlier filter. Idempotent.

    Raises SluiceError if there is no such interface, and EnvironmentLacking if a filter of another kind or protocol has
    the first priority.
    """
    index = _index(ifname)
    with _explained(f"attach {program.name} to {ifname}"):
        _require_clsact(ifname, index)
        present = _filters(index, direction)
        own = [each for each in present if each.program == program.name]
        is_first = bool(own) and present[0] == own[0] and own[0].priority == _FIRST
        used = {each.handle for each in present if each.priority == _FIRST}
        handle = own[0].handle if is_first else next(free for free in _HANDLES if free not in used)
        new = _Filter(_FIRST, handle, _ALL_PROTOCOLS, _label(program))
        try:
            rtnetlink.make(Kind.FILTERS, new.message(index, direction, program.fd), replaces=True)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EEXIST, errno.ENOENT):
                raise
            raise EnvironmentLacking(
                f"{ifname} has a tc filter of another program at priority {_FIRST}, which leaves no room before it: "
                f"move it to another one (tc filter show dev {ifname} {direction})"
            ) from error
        for each in own[is_first:]:
            rtnetlink.remove(Kind.FILTERS, each.message(index, direction))


def detach_clsact(ifname: str, program: Program, direction: Direction = "egress") -> bool:
    """Remove the program's filter, also one of another process, and return whether there was one.

    Filters of others stay. The clsact qdisc stays if it has any, because no one else needs an empty one.
    """
    index = _index(ifname)
    with _explained(f"detach from {ifname}"):
        own = [each for each in _filters(index, direction) if each.program == program.name]
        for each in own:
            rtnetlink.remove(Kind.FILTERS, each.message(index, direction))
        if not own:
            return False
        if not any(_messages(index, each) for each in _PARENT):
            rtnetlink.remove(Kind.QDISCS, TCMSG.pack(0, index, _CLSACT, _AT_CLSACT, 0))
        return True


def is_attached(ifname: str, program: Program, direction: Direction = "egress") -> bool:
    """Return whether a filter runs this program of this process. False without the interface."""
    try:
        index = socket.if_nametoindex(ifname)
    except OSError:
        return False
    with _explained(f"list the filters of {ifname}"):
        return _label(program) in (each.name for each in _filters(index, direction))


class RunCheck:
    """Whether a program runs at the interface where it is attached: its count of packets moves with the interface's.

    It does not run if a program before it ends the chain: a filter of another process, or a TCX program.
    """

    def __init__(self) -> None:
        self._before: tuple[int, int] | None = None
        self._is_suspect = False
        self.is_skipped = False
        """The program did not run, though it has been put first."""

    def look(self, sent: int, seen: int, go_first: Callable[[], None]) -> None:
        """Put the program first if it has not run since the last call, though the interface has sent FEW_PACKETS.

        `sent` and `seen` are the counts of the interface and of the program.
        """
        before, self._before = self._before, (sent, seen)
        if before is None:
            return
        if seen != before[1]:
            self._is_suspect = self.is_skipped = False
        elif sent - before[0] >= FEW_PACKETS:
            self.is_skipped = self._is_suspect
            if not self._is_suspect:
                self._is_suspect = True
                go_first()


def skipped(interface: str) -> str:
    """Return what to say of an interface whose program is skipped."""
    return (
        f"{interface}: another program ends the chain of tc before Sluice's, so packets pass without it "
        f"(bpftool net show dev {interface})"
    )


def _label(program: Program) -> str:
    """Return the filter's name. It contains the program's kernel id, so it differs from that of another process."""
    return f"{program.name}:{program.id}"


def _index(ifname: str) -> int:
    try:
        return socket.if_nametoindex(ifname)
    except OSError as error:
        raise SluiceError(f"there is no interface {ifname} in this network namespace") from error


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Say what the kernel has refused."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EPERM:
            raise EnvironmentLacking(f"{what}: this needs root; run it with sudo") from error
        raise SluiceError(f"{what}: {error}") from error


def _require_clsact(ifname: str, index: int) -> None:
    """Make the qdisc if it is not there."""
    try:
        rtnetlink.make_queue(
            Kind.QDISCS, index, _CLSACT, _AT_CLSACT, rtnetlink.packed({rtnetlink.KIND: b"clsact\0"})
        )
    except OSError as error:
        if error.errno != errno.EINVAL:  # a qdisc of another kind has the place
            raise
        raise SluiceError(
            f"{ifname} has an ingress qdisc, which leaves no room for clsact: tc qdisc del dev {ifname} ingress"
        ) from error


class _Filter(NamedTuple):
    priority: int
    handle: int
    protocol: int
    """In the kernel's byte order of the wire."""
    name: str
    """Of a BPF filter; empty for other kinds."""

    @property
    def program(self) -> str:
        """The name of Sluice's program in the filter's name."""
        return self.name.partition(":")[0]

    def message(self, index: int, direction: Direction, program_fd: int | None = None) -> bytes:
        """Return the request about this BPF filter at an interface; with a program, the request to make it."""
        info = self.priority << 16 | self.protocol
        content = {rtnetlink.KIND: b"bpf\0"}
        if program_fd is not None:
            options = {_FD: _NUMBER.pack(program_fd), _NAME: self.name.encode() + b"\0"}
            content[rtnetlink.OPTIONS] = rtnetlink.packed(options | {_FLAGS: _NUMBER.pack(_DIRECT_ACTION)})
        return TCMSG.pack(0, index, self.handle, _PARENT[direction], info) + rtnetlink.packed(content)


def _messages(index: int, direction: Direction) -> list[bytes]:
    """Return what the kernel says of the filters at an interface."""
    try:
        return list(rtnetlink.dump(Kind.FILTERS, TCMSG.pack(0, index, 0, _PARENT[direction], 0)))
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):  # no clsact there
            return []
        raise


def _filters(index: int, direction: Direction) -> list[_Filter]:
    """Return the filters at an interface, in the order in which the kernel runs them."""
    filters = []
    for body in _messages(index, direction):
        _, _, handle, _, info = TCMSG.unpack_from(body)
        values = rtnetlink.attributes(body[TCMSG.size :])
        options = values.get(rtnetlink.OPTIONS) if values[rtnetlink.KIND] == b"bpf\0" else None
        if options is not None or handle:  # the kernel also lists the head of each priority
            name = rtnetlink.attributes(options).get(_NAME, b"") if options else b""
            filters.append(_Filter(info >> 16, handle, info & 0xFFFF, name.rstrip(b"\0").decode()))
    return filters
