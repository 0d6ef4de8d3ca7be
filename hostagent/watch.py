# SPDX-License-Identifier: Apache-2.0
"""Flow watch on a host: the TCP connections of any program become flow records. Live ones go into heartbeats.

If both ends of a connection are watched, only the host that sent more data reports it. If the other end
is not watched, this host reports the connection in both directions. The reporter's
thread does all of this, with its own spool, so that it never delays the traffic's thread.
"""

import errno
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from sluice.dataplane.congestion import in_first_namespace
from sluice.dataplane.watch import Connection, Watch
from sluice.hostagent.spool import Spool
from sluice.hostagent.wire import PORT
from sluice.policy.errors import EnvironmentLacking
from sluice.policy.tags import DEFAULT_IDLE_GAP_NS
from sluice.policy.units import NS_PER_S
from sluice.policy.wire.agents import MAX_ADDRESSES, LivingConnection, WatchStatus, reason
from sluice.policy.wire.records import FINISHED, MAX_LABEL, UNFINISHED, WATCHED, FlowRecord, size_class
from sluice.runtime.identity import boot

log = logging.getLogger(__name__)

MOST_SHOWN = 20
"""A heartbeat holds at most this many live connections, the fastest."""
ADDRESS_NS = 300 * NS_PER_S
"""The web process hears of an address of a container for so long after its last flow."""
_ROTATE_RECORDS = 5000
_UNKNOWN = "unknown"

ADOPTED = "began before it was watched"
ABORTED = "closed before all of it had been acknowledged"
CUT = "closed before the other end had finished sending"
RESET_AFTER_ALL = "reset by the other end after all of it had been sent"
_RESETS = (errno.ECONNRESET, errno.EPIPE)
_REASONS = {**dict.fromkeys(_RESETS, "reset by the other end"), errno.ETIMEDOUT: "timed out"}


@dataclass(frozen=True)
class Host:
    """The host whose connections are watched."""

    name: str
    names: Mapping[str, str]
    """Address → name of the watched hosts."""
    boot: str
    """Identifies the boot of this machine, because a socket's cookie is unique only until the next boot."""
    epoch_ns: int
    """CLOCK_REALTIME at zero of CLOCK_MONOTONIC."""

    def watched_name(self, connection: Connection) -> str | None:
        """Return the name of the other end if it is watched, too, otherwise None."""
        remote = connection.remote
        if remote.is_loopback or remote == connection.local or connection.both_ends:
            return self.name
        return self.names.get(str(remote))

    def identity(self, connection: Connection) -> str:
        """Return the flow's id. Only this end makes it, and a later flow of the socket has another."""
        return f"watched/{self.boot}/{connection.cookie}.{connection.start_ns}"

    def is_reported_here(self, connection: Connection) -> bool:
        """Whether this host reports the connection. No host reports one without payload."""
        if not connection.sent_bytes and not connection.received_bytes:
            return False
        return is_sender(connection) or self.watched_name(connection) is None

    def endpoints(self, connection: Connection) -> dict[str, Any]:
        """Return source and destination of the data, with ports, as fields of a record.

        An end that is not watched has its address for a name.
        """
        here = (self.name, connection.local_port)
        there = (self.watched_name(connection) or str(connection.remote), connection.remote_port)
        source, target = (here, there) if is_sender(connection) else (there, here)
        return {"src": source[0], "src_port": source[1], "dst": target[0], "dst_port": target[1]}


def is_sender(connection: Connection) -> bool:
    """Whether this end has sent more than it received. If both are equal, the end that connected is the sender."""
    sent = connection.sent_bytes + connection.pending_bytes
    return (sent, connection.active) > (connection.received_bytes, False)


def carried_bytes(connection: Connection) -> int:
    """Return the payload in the direction that carried more."""
    return connection.sent_bytes if is_sender(connection) else connection.received_bytes


def to_record(
    connection: Connection, host: Host, scheme: str, container: str | None = None
) -> FlowRecord | None:
    """Return the record of a flow that has ended; None if another host reports it or it carried no payload.

    `container`: the name of the one whose program has this end.
    """
    size_bytes = carried_bytes(connection)
    sending = is_sender(connection)
    if not host.is_reported_here(connection) or not size_bytes:
        return None
    if not sending and not connection.active and (connection.part or connection.followed):
        return None  # only the other end knows when each of its flows began
    started_ns = _started_ns(connection, sending)
    finished_ns, reason = _outcome(connection, sending)
    deadline_us, met = _deadline(connection, finished_ns) if sending else (None, None)
    ack_wait_us = None  # from the last transmission of the last byte to its acknowledgement
    if sending and finished_ns is not None and connection.last_sent_ns is not None:
        ack_wait_us = max(0, finished_ns - connection.last_sent_ns) / 1000
    return FlowRecord(
        id=host.identity(connection),
        **host.endpoints(connection),
        bytes=size_bytes,
        size_class=size_class(size_bytes),
        started_at=(host.epoch_ns + started_ns) / NS_PER_S,
        fct_us=None if finished_ns is None else (finished_ns - started_ns) / 1000,
        ideal_us=None,
        deadline_us=deadline_us,
        met=met,
        retransmissions=connection.retransmissions if sending else None,
        congestion_control=connection.congestion_control if sending else _UNKNOWN,
        scheme=scheme,
        status=UNFINISHED if finished_ns is None else FINISHED,
        reason=reason or (ADOPTED if connection.adopted else ""),
        source=WATCHED,
        lasted_us=(connection.read_ns - started_ns) / 1000,
        timeouts=connection.timeouts if sending else None,
        srtt_us=connection.srtt_us,
        ack_wait_us=ack_wait_us,
        label=container,
    )


def _started_ns(connection: Connection, sending: bool) -> int:
    """Return when the flow began: with the connection, the declaration, or the first write."""
    if not sending or not connection.later or connection.first_sent_ns is None:
        return connection.start_ns
    return connection.declared_start_ns or connection.first_sent_ns


def _outcome(connection: Connection, sending: bool) -> tuple[int | None, str]:
    """Return when the data had arrived (CLOCK_MONOTONIC, ns), or None and the reason why it had not.

    A sender knows by the acknowledgements, a receiver only by how the connection ended.
    """
    if sending and connection.sent_at_ns is not None:
        return max(connection.sent_at_ns, _started_ns(connection, sending)), ""
    in_order = not connection.error and (connection.closed or connection.received_at_ns is not None)
    if not sending and in_order:
        return connection.received_at_ns or connection.read_ns, ""
    if sending and _may_have_arrived(connection):
        return None, RESET_AFTER_ALL
    if connection.error:
        return None, _REASONS.get(connection.error, os.strerror(connection.error).lower())
    return None, ABORTED if sending else CUT


def _may_have_arrived(connection: Connection) -> bool:
    """Whether nobody knows if all data has arrived. A client that closes after its answer resets the connection."""
    return connection.error in _RESETS and connection.all_sent


def _deadline(connection: Connection, finished_ns: int | None) -> tuple[float | None, bool | None]:
    """Return the declared deadline (us from the flow's start), and whether the data met it; None if nobody knows.

    A receiver may delay its acknowledgement by 40 ms (Linux). So a flow also meets its deadline if the last
    transmission of its last byte and the smallest round trip end before it.
    """
    if connection.declared_deadline_ns is None or connection.declared_start_ns is None:
        return None, None
    arrived_ns, sent_ns = finished_ns, connection.last_sent_ns or 0
    if finished_ns is None and _may_have_arrived(connection) and sent_ns <= connection.declared_deadline_ns:
        return None, None
    if finished_ns is not None and connection.last_sent_ns is not None and connection.min_rtt_us is not None:
        arrived_ns = min(finished_ns, connection.last_sent_ns + 1000 * connection.min_rtt_us)
    met = arrived_ns is not None and arrived_ns <= connection.declared_deadline_ns
    return (connection.declared_deadline_ns - connection.declared_start_ns) / 1000, met


def is_complete(connection: Connection, idle_gap_ns: int) -> bool:
    """Whether a live connection's flow is over, although the kernel reports it only with the next flow.

    Only an end that answers requests can tell: its answer is acknowledged, and it has been idle for the gap.
    """
    if connection.active or not is_sender(connection) or not connection.received_bytes:
        return False
    gap_ns = max(idle_gap_ns, 2000 * (connection.srtt_us or 0))
    acknowledged = connection.sent_at_ns is not None and not connection.pending_bytes
    return acknowledged and connection.read_ns - (connection.last_sent_ns or connection.read_ns) > gap_ns


def living_connection(
    connection: Connection, rate_bps: int, host: Host, container: str | None = None
) -> LivingConnection:
    """Return the heartbeat's entry of a live connection; `container` as in `to_record`."""
    sending = is_sender(connection)
    deadline_ns = connection.declared_deadline_ns if sending else None
    return LivingConnection(
        id=host.identity(connection),
        **host.endpoints(connection),
        bytes=carried_bytes(connection),
        rate_bps=rate_bps,
        started_at=(host.epoch_ns + connection.start_ns) / NS_PER_S,
        deadline_at=None if deadline_ns is None else (host.epoch_ns + deadline_ns) / NS_PER_S,
        retransmissions=connection.retransmissions if sending else None,
        congestion_control=connection.congestion_control if sending else _UNKNOWN,
        srtt_us=connection.srtt_us,
        label=container or "",
    )


# ── The containers of this machine, as far as their runtimes name them by their cgroups ────────────────────────────


_SHORT_DIGITS = 12
"""Runtimes print so many digits of an id in their lists."""
_BY_ID = re.compile(r"(?:(?:docker|libpod|cri-containerd|crio|nerdctl)-)?([0-9a-f]{64})(?:\.scope)?")
_BY_NAME = re.compile(r"(?:lxc\.payload\.|machine-|systemd-nspawn@)(.+?)(?:\.scope|\.service)?")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
"""How systemd writes a character that is special to it."""
_CONTAINERD = "default"
"""Where containerd puts the cgroups of what `ctr` starts: the name of its namespace, if none was chosen."""
_KUBERNETES = "k8s.io"
"""The namespace of containerd in which Kubernetes starts containers."""
_OF_CONTAINERD = [
    f"io.kubernetes.cri.{name}" for name in ("sandbox-namespace", "sandbox-name", "container-name")
]
_OF_CRIO = [f"io.kubernetes.{name}" for name in ("pod.namespace", "pod.name", "container.name")]
DESCRIPTIONS = {
    "/run/containerd/io.containerd.runtime.v2.task/{namespace}/{id}/config.json": _OF_CONTAINERD,
    "/run/k3s/containerd/io.containerd.runtime.v2.task/{namespace}/{id}/config.json": _OF_CONTAINERD,
    "/run/containers/storage/overlay-containers/{id}/userdata/config.json": _OF_CRIO,
    "/var/lib/docker/containers/{id}/config.v2.json": ["Name"],
}
"""Where a runtime describes a container until it ends, and its own annotations. A pod may have any others.

Docker has no annotations there, and begins a name with a slash.
"""
PODMAN, LISTS = Path("/var/lib/containers/storage"), "*-containers/*containers.json"
"""Where Podman lists its containers, whose descriptions lack the names. The first star is the storage driver."""
MOST_BYTES = 2**20
"""A longer file tells nothing. Most descriptions have some 20 KB, and a container in a list has half of one."""


def container_name(cgroup_path: Sequence[str]) -> str | None:
    """Return the name of a cgroup's container, or the first digits of its id; None outside of containers.

    It is the outermost one, if one contains another. In Kubernetes its name is NAMESPACE/POD/CONTAINER.
    """
    for number, part in enumerate(cgroup_path):
        by_id, by_name = _BY_ID.fullmatch(part), _BY_NAME.fullmatch(part)
        namespace = cgroup_path[0] if number == 1 else _KUBERNETES
        described = described_name(namespace, by_id[1] if by_id else part) if by_id or number == 1 else None
        if described:
            return described
        if by_id:
            return by_id[1][:_SHORT_DIGITS]
        if by_name or described is not None or (number == 1 and namespace == _CONTAINERD):
            text = by_name[1] if by_name else part
            name = _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), text)[:MAX_LABEL]
            return name if name.isprintable() else None
    return None


@lru_cache(maxsize=1024)
def described_name(namespace: str, identity: str) -> str | None:
    """Return the name in a container's description, also later; empty if that has none, None without a description."""
    for where, annotations in DESCRIPTIONS.items():
        with suppress(OSError), Path(where.format(namespace=namespace, id=identity)).open("rb") as file:
            return _name_in(file.read(MOST_BYTES), annotations)
    for path in PODMAN.glob(LISTS):
        with suppress(OSError), path.open("rb") as file:
            if name := _name_listed(file.read(MOST_BYTES), identity):
                return name
    return None


def _name_in(description: bytes, annotations: Iterable[str]) -> str:
    with suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):
        described = json.loads(description)
        described = described.get("annotations", described)
        return _printable("/".join(described[key] for key in annotations).lstrip("/"))
    return ""


def _name_listed(containers: bytes, identity: str) -> str:
    with suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):
        names = {one["id"]: one["names"] for one in json.loads(containers)}
        return _printable(names[identity][0])
    return ""


def _printable(name: str) -> str:
    return name[:MAX_LABEL] if name.isprintable() else ""


class FlowWatch:
    """The watch of this host's network namespace. The reporter's thread uses it from `begin` to `end`."""

    def __init__(
        self,
        name: str,
        names: Mapping[str, str],
        spool: Spool,
        scheme: Callable[[], str],
        ignored: Callable[[], tuple[str, int] | None] = lambda: None,
        use_bpf: bool = True,
    ) -> None:
        """`names`: as in Host. `scheme` returns the scheme for records.

        `ignored` returns the web process's address and port if the agent reaches it over TCP: the agent's
        own reports are not watched.
        """
        self._host = Host(
            name,
            names,
            boot().replace("-", "")[:12],
            time.time_ns() - time.monotonic_ns(),
        )
        self.spool = spool
        self._scheme = scheme
        self._ignored = ignored
        self._use_bpf = use_bpf
        self._watch: Watch | None = None
        self._addresses: dict[str, int] = {}
        """Address of a container → when a flow with it was last open (ns), the newest last."""
        self._before: dict[tuple[int, int], tuple[int, int]] = {}
        """Cookie and start of a live flow → bytes and time (ns) at the last heartbeat."""
        self._spooled = 0
        self._idle_gap_ns = DEFAULT_IDLE_GAP_NS
        self._early: dict[int, int] = {}
        """Cookie → start of the flow that was recorded before the kernel reported its end."""
        self.recorded = 0
        """Number of connections that became records."""
        self.problem = ""
        """Why connections are not watched although they should be; empty if they are watched."""

    def begin(self) -> None:
        """Watch the namespace of the calling thread. A kernel that cannot watch sets `problem`; that is no error.

        In the machine's first namespace, also watch those of containers and others that no agent serves.
        """
        self.spool.forget_before(self.spool.rotate())
        if not self._use_bpf:
            return
        try:
            self._watch = Watch(own_port=PORT, others=in_first_namespace())
        except EnvironmentLacking as lacking:
            self.problem = f"connections are not watched: {lacking}"
            log.warning("%s", self.problem)

    def collect(self) -> None:
        """Spool the records of ended connections. Call this often, also while the web process is away."""
        if self._watch is None:
            return
        for connection in filter(self._is_other_traffic, self._watch.ended()):
            if self._early.get(connection.cookie) != connection.start_ns:
                self._record(self._watch, connection)

    def use_idle_gap(self, idle_gap_ns: int) -> None:
        """End a flow when its direction is idle for this long, as the tagger does."""
        if self._watch is not None and idle_gap_ns != self._idle_gap_ns:
            self._watch.set_idle_gap(idle_gap_ns)
            self._idle_gap_ns = idle_gap_ns

    def _note_address(self, connection: Connection) -> None:
        if connection.elsewhere and not (connection.local.is_loopback or connection.local.is_link_local):
            self._addresses.pop(str(connection.local), None)
            self._addresses[str(connection.local)] = connection.read_ns

    def _record(self, watch: Watch, connection: Connection) -> None:
        self._note_address(connection)
        record = to_record(
            connection, self._host, self._scheme(), container_name(watch.cgroup_path(connection))
        )
        if record is None:
            return
        self.spool.append(record)
        self.recorded += 1
        self._spooled += 1
        if self._spooled >= _ROTATE_RECORDS:
            self.spool.forget_before(self.spool.rotate())
            self._spooled = 0

    def _is_other_traffic(self, connection: Connection) -> bool:
        return (str(connection.remote), connection.remote_port) != self._ignored()

    def status(self) -> WatchStatus:
        """Return the heartbeat's part of the watch: live connections and losses."""
        if self._watch is None:
            return WatchStatus(watching=False, problem=reason(self.problem))
        self.collect()
        living = []
        for connection in filter(self._is_other_traffic, self._watch.live()):
            self._note_address(connection)
            if self._host.is_reported_here(connection):
                living.append(connection)
        # Record the flows that are over on connections that stay open.
        early = {c.cookie: c.start_ns for c in living if is_complete(c, self._idle_gap_ns)}
        for connection in living:
            if (connection.cookie, connection.start_ns) not in self._before:
                container_name(self._watch.cgroup_path(connection))  # while its runtime describes it
            start_ns = early.get(connection.cookie)
            if start_ns is not None and self._early.get(connection.cookie) != start_ns:
                self._record(self._watch, connection)
        self._early = early
        rated = sorted(self._rated(living), key=lambda pair: (-pair[1], pair[0].cookie))
        return WatchStatus(
            watching=True,
            problem=reason(self.problem),
            recorded=self.recorded,
            lost=self._watch.lost(),
            living=len(living),
            connections=tuple(
                living_connection(c, rate, self._host, container_name(self._watch.cgroup_path(c)))
                for c, rate in rated[:MOST_SHOWN]
            ),
            addresses=self._used_addresses(),
        )

    def _used_addresses(self) -> tuple[str, ...]:
        """Return the addresses of containers, the newest first. One that may have another owner by now is forgotten."""
        newest = list(self._addresses.items())[-MAX_ADDRESSES:]
        oldest_ns = time.monotonic_ns() - ADDRESS_NS
        self._addresses = {address: at_ns for address, at_ns in newest if at_ns >= oldest_ns}
        return tuple(reversed(self._addresses))

    def _rated(self, living: Iterable[Connection]) -> list[tuple[Connection, int]]:
        """Return each connection with its rate (bits/s) since the last call or, if new, since its start."""
        rated, seen = [], {}
        for connection in living:
            now = (carried_bytes(connection), connection.read_ns)
            key = (connection.cookie, connection.start_ns)
            before = self._before.get(key, (0, connection.start_ns))
            elapsed_ns = max(1, now[1] - before[1])
            rated.append((connection, round(max(0, now[0] - before[0]) * 8e9 / elapsed_ns)))
            seen[key] = now
        self._before = seen
        return rated

    def end(self) -> None:
        """End the watch. A second call does nothing."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
