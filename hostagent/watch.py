# SPDX-License-Identifier: Apache-2.0
"""Flow watch on a host: the TCP connections of any program become flow records, and are shown while they live.

A connection between two hosts that are both watched is told of once, by the one that sent more of the data. Of one to
an address that nobody watches, this host tells whichever way the data went. All of it happens in the reporter's
thread; a spool of its own keeps it away from the traffic's.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataplane.watch import Connection, Watch
from hostagent.spool import Spool
from hostagent.wire import PORT
from policy.agents import LivingConnection, WatchStatus, reason
from policy.errors import EnvironmentLacking
from policy.records import FINISHED, UNFINISHED, WATCHED, FlowRecord, size_class
from policy.units import NS_PER_S

log = logging.getLogger(__name__)

MOST_SHOWN = 20
"""Living connections in a heartbeat: the fastest."""
_ROTATE_RECORDS = 5000
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_UNKNOWN = "unknown"

ADOPTED = "began before it was watched"
ABORTED = "closed before all of it had been acknowledged"
CUT = "closed before the other end had said all"
_REASONS = {
    errno.ECONNRESET: "reset by the other end",
    errno.EPIPE: "reset by the other end",
    errno.ETIMEDOUT: "timed out",
}


@dataclass(frozen=True)
class Host:
    """Whose connections are watched."""

    name: str
    names: Mapping[str, str]
    """Address -> name of the hosts that are watched too."""
    boot: str
    """Stands for this machine since it booted: a socket's cookie is unique until then."""
    epoch_ns: int
    """What CLOCK_MONOTONIC's zero is in CLOCK_REALTIME."""

    def is_watched(self, connection: Connection) -> bool:
        """Is the other end watched as well?"""
        remote = connection.remote
        return remote.is_loopback or remote == connection.local or str(remote) in self.names

    def remote_name(self, connection: Connection) -> str:
        remote = connection.remote
        if remote.is_loopback or remote == connection.local:
            return self.name
        return self.names.get(str(remote), str(remote))

    def identity(self, connection: Connection) -> str:
        """The same over restarts of the agent; another one when the program uses the socket again."""
        return f"watched/{self.boot}/{connection.cookie}.{connection.start_ns}"

    def is_told_here(self, connection: Connection) -> bool:
        """Is it this host that tells of the connection? Not when it carried nothing."""
        if not connection.sent_bytes and not connection.received_bytes:
            return False
        return is_sender(connection) or not self.is_watched(connection)

    def ends(self, connection: Connection) -> dict[str, Any]:
        """Where the data came from and went to."""
        here = (self.name, connection.local_port)
        there = (self.remote_name(connection), connection.remote_port)
        source, target = (here, there) if is_sender(connection) else (there, here)
        return {"src": source[0], "src_port": source[1], "dst": target[0], "dst_port": target[1]}


def is_sender(connection: Connection) -> bool:
    """Has this end sent more than it received? When both are equal, who opened the connection counts as the sender."""
    sent = connection.sent_bytes + connection.pending_bytes
    return (sent, connection.active) > (connection.received_bytes, False)


def carried_bytes(connection: Connection) -> int:
    return connection.sent_bytes if is_sender(connection) else connection.received_bytes


def to_record(connection: Connection, host: Host, scheme: str) -> FlowRecord | None:
    """The record of a connection that has ended; None when another host tells of it, or nobody."""
    size_bytes = carried_bytes(connection)
    if not host.is_told_here(connection) or not size_bytes:
        return None
    sending = is_sender(connection)
    finished_ns, reason = _outcome(connection, sending)
    deadline_us, met = _deadline(connection, finished_ns) if sending else (None, None)
    return FlowRecord(
        id=host.identity(connection),
        **host.ends(connection),
        bytes=size_bytes,
        size_class=size_class(size_bytes),
        started_at=(host.epoch_ns + connection.start_ns) / NS_PER_S,
        fct_us=None if finished_ns is None else (finished_ns - connection.start_ns) / 1000,
        ideal_us=None,
        deadline_us=deadline_us,
        met=met,
        retransmissions=connection.retransmissions if sending else None,
        congestion_control=connection.congestion_control if sending else _UNKNOWN,
        scheme=scheme,
        status=UNFINISHED if finished_ns is None else FINISHED,
        reason=reason or (ADOPTED if connection.adopted else ""),
        source=WATCHED,
        lasted_us=(connection.read_ns - connection.start_ns) / 1000,
        timeouts=connection.timeouts if sending else None,
        srtt_us=connection.srtt_us,
    )


def _outcome(connection: Connection, sending: bool) -> tuple[int | None, str]:
    """When the data had arrived, or None and why it had not. A receiver knows it by the order in which things ended."""
    if sending and connection.sent_at_ns is not None:
        return max(connection.sent_at_ns, connection.start_ns), ""
    in_order = not connection.error and (connection.closed or connection.received_at_ns is not None)
    if not sending and in_order:
        return connection.received_at_ns or connection.read_ns, ""
    if connection.error:
        return None, _REASONS.get(connection.error, os.strerror(connection.error).lower())
    return None, ABORTED if sending else CUT


def _deadline(connection: Connection, finished_ns: int | None) -> tuple[float | None, bool | None]:
    """The deadline that was told last, from the flow's start (us), and whether the connection's data met it."""
    if connection.told_deadline_ns is None or connection.told_start_ns is None:
        return None, None
    met = finished_ns is not None and finished_ns <= connection.told_deadline_ns
    return (connection.told_deadline_ns - connection.told_start_ns) / 1000, met


class Rates:
    """Rate of each living connection, from one look to the next."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[int, int]] = {}

    def look(self, connections: Iterable[Connection]) -> list[tuple[Connection, int]]:
        """Each with its rate in bits/s since the last look, or since its start."""
        rated, seen = [], {}
        for connection in connections:
            now = (carried_bytes(connection), connection.read_ns)
            before = self._before.get(connection.cookie, (0, connection.start_ns))
            elapsed_ns = max(1, now[1] - before[1])
            rated.append((connection, round(max(0, now[0] - before[0]) * 8e9 / elapsed_ns)))
            seen[connection.cookie] = now
        self._before = seen
        return rated


def living_connection(connection: Connection, rate_bps: int, host: Host) -> LivingConnection:
    """What a heartbeat says of a connection that lives."""
    sending = is_sender(connection)
    deadline_ns = connection.told_deadline_ns if sending else None
    return LivingConnection(
        id=host.identity(connection),
        **host.ends(connection),
        bytes=carried_bytes(connection),
        rate_bps=rate_bps,
        started_at=(host.epoch_ns + connection.start_ns) / NS_PER_S,
        deadline_at=None if deadline_ns is None else (host.epoch_ns + deadline_ns) / NS_PER_S,
        retransmissions=connection.retransmissions if sending else None,
        congestion_control=connection.congestion_control if sending else _UNKNOWN,
        srtt_us=connection.srtt_us,
    )


class FlowWatch:
    """The watch of this host's network namespace: a context for the reporter's thread."""

    def __init__(
        self,
        name: str,
        names: Mapping[str, str],
        spool: Spool,
        scheme: Callable[[], str],
        ignored: Callable[[], tuple[str, int] | None] = lambda: None,
        use_bpf: bool = True,
    ) -> None:
        """`names`: as in Host. `ignored`: the web process's address and port, if it is reached over TCP."""
        self._host = Host(
            name,
            names,
            _BOOT_ID.read_text().strip().replace("-", "")[:12],
            time.time_ns() - time.monotonic_ns(),
        )
        self.spool = spool
        self._scheme = scheme
        self._ignored = ignored
        self._use_bpf = use_bpf
        self._watch: Watch | None = None
        self._rates = Rates()
        self._spooled = 0
        self.recorded = 0
        """Connections that became records."""
        self.problem = ""
        """Why connections are not watched although they should be; empty when all is well."""

    @property
    def running(self) -> bool:
        return self._watch is not None

    def begin(self) -> None:
        """Watch the namespace of the calling thread. A kernel that cannot is a `problem`, no error."""
        self.spool.forget_before(self.spool.rotate())
        if not self._use_bpf:
            return
        try:
            self._watch = Watch(own_port=PORT)
        except EnvironmentLacking as lacking:
            self.problem = f"connections are not watched: {lacking}"
            log.warning("%s", self.problem)

    def collect(self) -> None:
        """Keep the connections that have ended. To be called often, whether anybody takes the records or not."""
        if self._watch is None:
            return
        for connection in filter(self._concerns_us, self._watch.ended()):
            record = to_record(connection, self._host, self._scheme())
            if record is not None:
                self._keep(record)

    def _keep(self, record: FlowRecord) -> None:
        self.spool.append(record)
        self.recorded += 1
        self._spooled += 1
        if self._spooled >= _ROTATE_RECORDS:
            self.spool.forget_before(self.spool.rotate())
            self._spooled = 0

    def _concerns_us(self, connection: Connection) -> bool:
        return (str(connection.remote), connection.remote_port) != self._ignored()

    def status(self) -> WatchStatus:
        """For the heartbeat: what lives now, what was lost."""
        if self._watch is None:
            return WatchStatus(watching=False, problem=reason(self.problem))
        living = [c for c in self._watch.live() if self._concerns_us(c) and self._host.is_told_here(c)]
        rated = sorted(self._rates.look(living), key=lambda pair: (-pair[1], pair[0].cookie))
        losses = self._watch.losses()
        return WatchStatus(
            watching=True,
            problem=reason(self.problem),
            recorded=self.recorded,
            lost=losses.records + losses.connections,
            living=len(living),
            connections=tuple(living_connection(c, rate, self._host) for c, rate in rated[:MOST_SHOWN]),
        )

    def end(self) -> None:
        """Idempotent."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
