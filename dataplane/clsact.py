# SPDX-License-Identifier: Apache-2.0
"""Attach a BPF program to an interface of the current network namespace: clsact, direct action, one Sluice filter.

The filter has a fixed priority and handle. So a second attachment replaces it in one step, and no packet misses it.
Filters of other programs stay. The kernel runs them after this one.
"""

import errno
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from sluice.policy.errors import EnvironmentLacking, SluiceError

Direction = Literal["ingress", "egress"]

_NAMESPACE = Path("/proc/thread-self/ns/net")
_CLSACT = 0xFFFF0000
_PARENT: dict[Direction, int] = {"ingress": 0xFFFFFFF2, "egress": 0xFFFFFFF3}
_PRIORITY = 49000
_HANDLE = 1
_ETH_P_ALL = 0x0003
_NAME_PREFIX = "sluice_"


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


class AttachableProgram(Protocol):
    """A program that can be attached, for example dataplane.loader.Program."""

    @property
    def name(self) -> str: ...
    @property
    def fd(self) -> int: ...
    @property
    def id(self) -> int: ...


def attach_clsact(ifname: str, program: AttachableProgram, direction: Direction = "egress") -> None:
    """Attach `program` and replace Sluice's earlier filter. Idempotent.

    Raises SluiceError if there is no such interface, or if a filter of another program has this priority.
    """
    index = _index(ifname)
    with _netlink(f"attach {program.name} to {ifname}") as netlink:
        _require_clsact(netlink, ifname, index)
        present = _filters(netlink, index, direction)
        if len(present) > len(_own(present)):
            raise SluiceError(
                f"{ifname} has a tc filter of another program at priority {_PRIORITY}: remove it first"
            )
        netlink.tc(
            "replace-filter",
            "bpf",
            index,
            _HANDLE,
            fd=program.fd,
            name=_label(program),
            parent=_PARENT[direction],
            prio=_PRIORITY,
            protocol=_ETH_P_ALL,
            direct_action=True,
        )


def detach_clsact(ifname: str, direction: Direction = "egress") -> bool:
    """Remove Sluice's filter, and return whether there was one.

    Filters of others stay. The clsact qdisc stays if it has any, because no one else needs an empty one.
    """
    index = _index(ifname)
    with _netlink(f"detach from {ifname}") as netlink:
        if not _own(_filters(netlink, index, direction)):
            return False
        netlink.tc(
            "del-filter",
            "bpf",
            index,
            _HANDLE,
            parent=_PARENT[direction],
            prio=_PRIORITY,
            protocol=_ETH_P_ALL,
        )
        if not any(list(netlink.get_filters(index=index, parent=parent)) for parent in _PARENT.values()):
            netlink.tc("del", "clsact", index)
        return True


def attached_program(ifname: str, direction: Direction = "egress") -> str | None:
    """Return the name of Sluice's program at an interface, also of another process. None without one."""
    try:
        index = socket.if_nametoindex(ifname)
    except OSError:
        return None
    with _netlink(f"list the filters of {ifname}") as netlink:
        for options in _own(_filters(netlink, index, direction)):
            name: str = options.get_attr("TCA_BPF_NAME")
            return name.partition(":")[0]
    return None


def is_attached(
    ifname: str,
    program: AttachableProgram | None = None,
    direction: Direction = "egress",
    netlink: Netlink | None = None,
) -> bool:
    """Return whether Sluice's filter is attached. With `program`: whether it runs this program of this process.

    False if the interface is gone. Who asks often passes a `netlink`.
    """
    try:
        index = socket.if_nametoindex(ifname)
    except OSError:
        return False
    with _netlink(f"list the filters of {ifname}", netlink) as connected:
        own = _own(_filters(connected, index, direction))
    if program is None:
        return bool(own)
    return any(options.get_attr("TCA_BPF_NAME") == _label(program) for options in own)


def _label(program: AttachableProgram) -> str:
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


def _filters(netlink: Any, index: int, direction: Direction) -> list[Any]:
    """Return the options of the BPF filters at Sluice's priority."""
    try:
        filters = list(netlink.get_filters(index=index, parent=_PARENT[direction]))
    except NetlinkError as error:
        if error.code in (errno.EINVAL, errno.ENOENT):  # no clsact there
            return []
        raise
    at_our_place = [f for f in filters if f["info"] >> 16 == _PRIORITY and f["handle"] == _HANDLE]
    return [f.get_attr("TCA_OPTIONS") for f in at_our_place if f.get_attr("TCA_KIND") == "bpf"]


def _own(filters: list[Any]) -> list[Any]:
    return [
        options for options in filters if (options.get_attr("TCA_BPF_NAME") or "").startswith(_NAME_PREFIX)
    ]
