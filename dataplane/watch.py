# SPDX-License-Identifier: Apache-2.0
"""Flow watch (bpf/watch.bpf.c): every TCP connection of the current network namespace, of any program.

with Watch() as watch:
    watch.ended()   # the connections that ended since the last call
    watch.live()    # the connections that are open now
"""

from __future__ import annotations

import itertools
import logging
import os
import socket
import struct
from collections import namedtuple
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

from sluice.dataplane import build, loader
from sluice.dataplane.libbpf import ATTACH_FUNCTION_ENTRY, ATTACH_ITERATOR, ATTACH_RAW_TRACEPOINT, Resource
from sluice.dataplane.loader import BpfObject, RingBuffer, load
from sluice.dataplane.sockopt import cgroup_root
from sluice.policy.errors import EnvironmentLacking
from sluice.policy.tags import DEFAULT_IDLE_GAP_NS

_SETTINGS = struct.Struct("=IIQQQ")
_CGROUP_NAMES = struct.Struct("=" + 8 * "96s")
"""struct watch_cgroup, the innermost first."""
_LOSSES = "=QQ"
_CONNECTION = struct.Struct("=12Q6I3HBB16s16s16s")
_Raw = namedtuple(
    "_Raw",
    "cookie start_ns read_ns sent_at_ns received_at_ns sent_bytes received_bytes declared_start_ns "
    "declared_deadline_ns first_sent_ns last_sent_ns cgroup pending_bytes retransmissions timeouts srtt_us min_rtt_us "
    "error family local_port remote_port state flags local remote congestion_control",
)
"""The fields of struct watch_connection (bpf/watch.h), by the names of Connection."""
_FLAGS = ("active", "adopted", "later", "followed", "part", "all_sent", "both_ends", "elsewhere")
"""The bits of `flags`, the lowest first."""
_TIMES = ("sent_at_ns", "received_at_ns", "first_sent_ns", "last_sent_ns")
_DECLARED = ("declared_start_ns", "declared_deadline_ns")
_ROUND_TRIPS = ("srtt_us", "min_rtt_us")
_UNKNOWN = 0xFFFFFFFF
_CLOSED_STATES = (4, 5, 9, 11)
"""enum tcp_state: FIN-WAIT-1, FIN-WAIT-2, LAST-ACK, CLOSING."""
_NAMESPACE = Path("/proc/thread-self/ns/net")

log = logging.getLogger(__name__)

Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Connection:
    """A flow of a TCP connection as one of its ends sees it. Times are nanoseconds of CLOCK_MONOTONIC, bytes
    are payload. A flow ends with an idle gap, with the next declared flow, or with its connection.

    An adopted connection is older than the watch. Its values count from the start of the watch.
    """

    cookie: int
    """The socket's cookie, unique on this machine until its next boot."""
    local: Address
    local_port: int
    remote: Address
    remote_port: int
    start_ns: int
    """Time of connect() at the end that opened the connection, of the handshake's end at the other."""
    read_ns: int
    """Time of these values. For an ended connection: its end."""
    sent_at_ns: int | None
    """Time at which all sent bytes were acknowledged. None: some are not."""
    received_at_ns: int | None
    """Time at which the other end closed its direction. None: it has not."""
    sent_bytes: int
    """Bytes that were acknowledged."""
    received_bytes: int
    pending_bytes: int
    """Bytes that the program has written but that are not acknowledged."""
    retransmissions: int
    timeouts: int | None
    """Retransmission timeouts. None before Linux 6.7."""
    srtt_us: int | None
    error: int
    """errno with which the connection ended, 0 for none."""
    congestion_control: str
    active: bool
    """This end opened the connection."""
    closed: bool
    """This end has closed its direction."""
    adopted: bool
    declared_start_ns: int | None
    """Start of the last flow with a declared deadline, and that deadline."""
    declared_deadline_ns: int | None
    first_sent_ns: int | None = None
    """When the program first wrote to the flow. None: no write was seen."""
    last_sent_ns: int | None = None
    """When the last acknowledged segment was last transmitted. The last byte arrived after that."""
    min_rtt_us: int | None = None
    """Smallest round-trip time of the last minutes."""
    later: bool = False
    """This end's flow began with a write and not with the connection."""
    followed: bool = False
    """The flow ended because this end began the next one on the same connection."""
    part: bool = False
    """Not the first flow of its connection."""
    all_sent: bool = False
    """All that the program has written was sent, though perhaps not acknowledged."""
    both_ends: bool = False
    """The other end is a watched socket of this machine, too. Only a watch of other namespaces tells."""
    elsewhere: bool = False
    """The socket is in another network namespace than the watch's own."""
    cgroup: int = 0
    """Id of the socket's cgroup of version 2, which is the inode of its folder. 0: unknown."""

    @classmethod
    def unpack(cls, data: bytes) -> Connection:
        """Return the connection of a struct watch_connection."""
        values: dict[str, Any] = _Raw._make(_CONNECTION.unpack(data))._asdict()
        family, state, flags = (values.pop(name) for name in ("family", "state", "flags"))
        for name in ("timeouts", "min_rtt_us"):
            values[name] = None if values[name] == _UNKNOWN else values[name]
        for name in (*_TIMES, *_DECLARED, *_ROUND_TRIPS):  # 0: there is none
            values[name] = values[name] or None
        for bit, name in enumerate(_FLAGS):
            values[name] = bool(flags >> bit & 1)
        for name in ("local", "remote"):
            values[name] = _address(family, values[name])
        control = values.pop("congestion_control").split(b"\0")[0].decode(errors="replace")
        return cls(**values, congestion_control=control, closed=state in _CLOSED_STATES)


class Watch(Resource):
    """A running watch. It ends with its process, even with a killed one."""

    def __init__(self, own_port: int = 0, *, others: bool = False) -> None:
        """Watch the network namespace of the calling thread, except connections to `own_port` (0: watch all).

        With `others`, also watch all namespaces of the machine that no agent serves, from their next connection on.
        Raises EnvironmentLacking when BPF cannot be used here.
        """
        self._links: list[int] = []
        self._cgroup_root = 0
        self._object, (writes, lists) = _load()
        self._ring: RingBuffer | None = None
        try:
            self._watched = _NAMESPACE.stat().st_ino, own_port
            self._others = others
            with suppress(EnvironmentLacking):
                self._cgroup_root = cgroup_root().stat().st_ino
            self.set_idle_gap(DEFAULT_IDLE_GAP_NS)
            self._ring = RingBuffer(self._object.map("ended"))
            everywhere = self._object.map("connections").fd if lists == _ALL else None
            self._living = self._attach(lists, ATTACH_ITERATOR, everywhere)
            self._attach("sluice_watch", ATTACH_RAW_TRACEPOINT)
            if writes:
                self._attach(*writes)
            self._attach("sluice_watch_ack", ATTACH_RAW_TRACEPOINT)
            loader.read(self._attach("sluice_watch_adopt", ATTACH_ITERATOR))
        except BaseException:
            self.close()
            raise

    def set_idle_gap(self, idle_gap_ns: int) -> None:
        """End a flow when its direction sends no data for longer than this (laws/tag.h)."""
        settings = _SETTINGS.pack(*self._watched, idle_gap_ns, self._others, self._cgroup_root)
        self._object.map("settings").update(0, settings)

    def _attach(self, program: str, attach_type: int, over_map_fd: int | None = None) -> int:
        self._links.append(loader.attach(self._object.program(program), attach_type, over_map_fd))
        return self._links[-1]

    def ended(self) -> list[Connection]:
        """Return the connections with data that have ended since the last call, in the order of their ends."""
        if self._ring is None:
            raise ValueError("the watch is closed")
        return [Connection.unpack(data) for data in self._ring.read()]

    def live(self) -> list[Connection]:
        """Return the open connections, including those without data.

        A kernel that refuses iterators over maps lists only those of the caller's network namespace.
        """
        if self._ring is None:
            raise ValueError("the watch is closed")
        data, size = loader.read(self._living), _CONNECTION.size
        found = (Connection.unpack(data[i : i + size]) for i in range(0, len(data), size))
        by_cookie = {one.cookie: one for one in found}  # a new one may move another, which is read again
        return list(by_cookie.values())

    def cgroup_path(self, connection: Connection) -> tuple[str, ...]:
        """Return the names of the connection's cgroup and of those around it below the root, the outermost first.

        The cgroup may have ended. Empty: unknown, or since then flows of a thousand other cgroups have ended.
        """
        found = self._object.map("cgroups").lookup(struct.pack("=Q", connection.cgroup))
        names = (name.split(b"\0")[0] for name in _CGROUP_NAMES.unpack(found)) if found else ()
        return tuple(name.decode(errors="replace") for name in names if name)[::-1]

    def lost(self) -> int:
        """Return how many connections the watch has missed since it began.

        The ring buffer was full, because no process had read it in time, or the kernel was short of memory.
        """
        return sum(self._object.map("losses").lookup_sum(0, _LOSSES) or ())

    def close(self) -> None:
        while self._links:
            os.close(self._links.pop())
        if self._ring is not None:
            self._ring.close()
            self._ring = None
        self._object.close()


_ALL, _OWN = "sluice_watch_all", "sluice_watch_own"
"""The programs that list open connections."""


def _load() -> tuple[BpfObject, tuple[tuple[str, int] | None, str]]:
    """Return the programs, which of them sees writes, with its attach type, and which lists open connections.

    A kernel without function entries and without the tracepoint has none: there, a flow ends with its connection.
    """
    writes = ("sluice_watch_enter", ATTACH_FUNCTION_ENTRY)
    btf = build.KERNEL_BTF
    if btf.exists() and b"btf_trace_tcp_sendmsg_locked" in btf.read_bytes():
        writes = ("sluice_watch_write", ATTACH_RAW_TRACEPOINT)
    first: EnvironmentLacking | None = None
    for seen, lists in itertools.product((writes, None), (_ALL, _OWN)):
        try:
            programs = load("watch", [lists, *([seen[0]] if seen else [])])
        except EnvironmentLacking as lacking:
            first = first or lacking
            continue
        if not seen:
            log.warning("a watched flow ends with its connection, because this kernel does not show writes")
        if lists == _OWN:
            log.warning(
                "open connections of containers are not listed: this kernel refuses iterators over maps"
            )
        return programs, (seen, lists)
    assert first
    raise first


def _address(family: int, data: bytes) -> Address:
    """Return the address. One that is mapped into IPv6 becomes IPv4, because its packets are IPv4."""
    address = ip_address(data[:4] if family == socket.AF_INET else data)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
