# SPDX-License-Identifier: Apache-2.0
"""Attach a BPF program to an interface of the current network namespace: clsact, direct action, a filter each.

The filter goes before those of other programs, because one of theirs may end the chain. They stay, and the kernel runs
them after this one. A second attachment replaces the program's filter in one step, and no packet misses it.
"""

import errno
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from sluice.dataplane.loader import Program
from sluice.policy.errors import EnvironmentLacking, SluiceError

Direction = Literal["ingress", "egress"]

_NAMESPACE = Path("/proc/thread-self/ns/net")
_CLSACT = 0xFFFF0000
_PARENT: dict[Direction, int] = {"ingress": 0xFFFFFFF2, "egress": 0xFFFFFFF3}
_FIRST = 1
"""The priority before all others."""
_HANDLES = range(0x51C0, 0x51C4)
"""Of Sluice's filters. Of two with one priority, the kernel runs the newer one first."""
_ETH_P_ALL = 0x0003
FEW_PACKETS = 10
"""So many may pass beside the hook, for example those of a packet socket with PACKET_QDISC_BYPASS."""


class Netlink:
    """A connection to the kernel for many questions: each IPRoute leaves 0.6 kB in the process, even after its end.

    It belongs to the thread and the network namespace of the last question.
    """

    def __init__(self) -> None:
        self._place: tuple[int, int] | None = None
        self._open: Any = None

    def connected(self) -> Any:
        """Return an IPRoute for the calling thread and its network namespace."""
        place = threading.get_ident(), _NAMESPACE.stat().st_ino
        if self._open is None or place != self._place:
            self.close()
            self._open, self._place = IPRoute(), place
        return self._open

    def close(self) -> None:
        """End the connection. The next question opens it again."""
        if self._open is not None:
            self._open.close()
            self._open = None


def attach_clsact(ifname: str, program: Program, direction: Direction = "egress") -> None:
    """Attach `program` before all filters of others, and remove its earlier filter. Idempotent.

    Raises SluiceError if there is no such interface, and EnvironmentLacking if a filter of another kind or protocol has
    the first priority.
    """
    index = _index(ifname)
    with _netlink(f"attach {program.name} to {ifname}") as netlink:
        _require_clsact(netlink, ifname, index)
        present = _filters(netlink, index, direction)
        own = [each for each in present if each.program == program.name]
        is_first = bool(own) and present[0] == own[0] and own[0].priority == _FIRST
        used = {each.handle for each in present if each.priority == _FIRST}
        handle = own[0].handle if is_first else next(free for free in _HANDLES if free not in used)
        try:
            netlink.tc(
                "replace-filter",
                "bpf",
                index,
                handle,
                fd=program.fd,
                name=_label(program),
                parent=_PARENT[direction],
                prio=_FIRST,
                protocol=_ETH_P_ALL,
                direct_action=True,
            )
        except NetlinkError as error:
            if error.code not in (errno.EINVAL, errno.EEXIST, errno.ENOENT):
                raise
            raise EnvironmentLacking(
                f"{ifname} has a tc filter of another program at priority {_FIRST}, which leaves no room before it: "
                f"move it to another one (tc filter show dev {ifname} {direction})"
            ) from error
        for each in own[is_first:]:
            _delete(netlink, index, direction, each)


def detach_clsact(ifname: str, program: Program, direction: Direction = "egress") -> bool:
    """Remove the program's filter, also one of another process, and return whether there was one.

    Filters of others stay. The clsact qdisc stays if it has any, because no one else needs an empty one.
    """
    index = _index(ifname)
    with _netlink(f"detach from {ifname}") as netlink:
        own = [each for each in _filters(netlink, index, direction) if each.program == program.name]
        for each in own:
            _delete(netlink, index, direction, each)
        if not own:
            return False
        if not any(list(netlink.get_filters(index=index, parent=parent)) for parent in _PARENT.values()):
            netlink.tc("del", "clsact", index)
        return True


def is_attached(ifname: str, program: Program, netlink: Netlink, direction: Direction = "egress") -> bool:
    """Return whether a filter runs this program of this process. False without the interface."""
    try:
        index = socket.if_nametoindex(ifname)
    except OSError:
        return False
    with _netlink(f"list the filters of {ifname}", netlink) as connected:
        return _label(program) in (each.name for each in _filters(connected, index, direction))


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
    """Return the filter's name. It contains the program's kernel id, which pyroute2 does not decode from filters."""
    return f"{program.name}:{program.id}"


def _index(ifname: str) -> int:
    try:
        return socket.if_nametoindex(ifname)
    except OSError as error:
        raise SluiceError(f"there is no interface {ifname} in this network namespace") from error


@contextmanager
def _netlink(what: str, kept: Netlink | None = None) -> Iterator[Any]:
    netlink, whole = kept or Netlink(), False
    try:
        yield netlink.connected()
        whole = True
    except NetlinkError as error:
        if error.code == errno.EPERM:
            raise EnvironmentLacking(f"{what}: this needs root; run it with sudo") from error
        raise SluiceError(f"{what}: {error}") from error
    finally:
        if kept is None or not whole:
            netlink.close()


def _require_clsact(netlink: Any, ifname: str, index: int) -> None:
    try:
        netlink.tc("add", "clsact", index)
    except NetlinkError as error:
        if error.code != errno.EEXIST:
            raise
        kinds = {q.get_attr("TCA_KIND") for q in netlink.get_qdiscs(index=index) if q["handle"] == _CLSACT}
        if kinds != {"clsact"}:
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


def _filters(netlink: Any, index: int, direction: Direction) -> list[_Filter]:
    """Return the filters at an interface, in the order in which the kernel runs them."""
    try:
        found = list(netlink.get_filters(index=index, parent=_PARENT[direction]))
    except NetlinkError as error:
        if error.code in (errno.EINVAL, errno.ENOENT):  # no clsact there
            return []
        raise
    filters = []
    for each in found:
        options = each.get_attr("TCA_OPTIONS") if each.get_attr("TCA_KIND") == "bpf" else None
        if options is not None or each["handle"]:  # the kernel also lists the head of each priority
            name = options.get_attr("TCA_BPF_NAME") if options is not None else ""
            filters.append(_Filter(each["info"] >> 16, each["handle"], each["info"] & 0xFFFF, name or ""))
    return filters


def _delete(netlink: Any, index: int, direction: Direction, one: _Filter) -> None:
    netlink.tc(
        "del-filter",
        "bpf",
        index,
        one.handle,
        parent=_PARENT[direction],
        prio=one.priority,
        protocol=socket.ntohs(one.protocol),
    )
