# SPDX-License-Identifier: Apache-2.0
"""The documents that agents and the web process exchange: heartbeats, and the settings that answer them.

Both ends read and write these documents through `sluice.policy.entries`, so a key that one end renames is
an error at the other. Every number, text and list is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from sluice.policy import names, reserved
from sluice.policy.behaviour import PortBehaviour
from sluice.policy.captures import CaptureOrder
from sluice.policy.desired import Policy
from sluice.policy.entries import TableOf, entry, read, write
from sluice.policy.errors import FieldError
from sluice.policy.field_entry import MAX_QUEUES
from sluice.policy.field_kinds import MAX_GROWTH
from sluice.policy.foreign import DSCPS, ForeignDscp
from sluice.policy.host_state import MAX_RUNNING, LinkCounters, RunningFlow
from sluice.policy.kinds import Choice, Flag, Line, ListOf, MapOf, Number, Text, Whole
from sluice.policy.queue_map import host_queue_map
from sluice.policy.tags import TAG_COUNT
from sluice.policy.units import NS_PER_MS
from sluice.policy.validity import DELAY_COUNTS, NO_DELAYS, MachineStatus

MAX_HEARTBEAT_BYTES = 500_000
"""Maximum length of a heartbeat's JSON."""
MAX_CONNECTIONS = 100
MAX_PORTS = 1024
LINK_QUEUES = ("prio", "htb", "fq")
"""Qdiscs with which a host can serve its own link by queues (dataplane/link_queues.py)."""

_COUNT = Whole(0, 2**63 - 1)
_BYTES = Whole(0, 2**63 - 1, "bytes")
_VERSION = Whole(0, 2**53)
_PID = Whole(1, 2**31)
_TCP_PORT = Whole(1, 65_535)
_EPOCH_S = Number(0, 1e11, "s")
_REASON = Line(longest=1000)
_RELEASE = Line(longest=64)


def reason(text: str) -> str:
    """Return a text for a heartbeat, cut to the maximum length."""
    return text.replace("\x00", "")[:1000]


# ── Settings: the answer to a heartbeat ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class HostSettings:
    """The settings that the policy needs from a host."""

    scheme: str = entry(names.SCHEME, "Scheme of the policy, for flow records.")
    congestion_control: str | None = entry(
        names.AGENT, "TCP_CONGESTION name for new connections. Null: the host's own.", nullable=True
    )
    tags_deadlines: bool = entry(Flag(), "Whether deadline flows carry their urgency in the tag.")
    urgent_after_bytes: int = entry(
        _BYTES, "How much a deadline flow sends before its tag carries the urgency."
    )
    tags_sizes: bool = entry(Flag(), "Whether flows of known size carry their size class in the tag.")
    idle_gap_ns: int = entry(
        Whole(1, 2**53, "ns"), "A flow ends when its direction sends no data for this long."
    )
    forgets_late: bool = entry(
        Flag(), "Whether a flow past its deadline continues as one without a deadline.", default=False
    )
    growth: int | None = entry(
        Whole(1, MAX_GROWTH, "packets"),
        "By how much a window without marks grows. Null: the control decides.",
        default=None,
    )
    reserved_dscp: tuple[int, ...] = entry(
        ListOf(Whole(reserved.LOWEST, reserved.HIGHEST), longest=reserved.MOST),
        "DSCPs of others: no tag has them, and packets keep them.",
        default=(),
    )
    queue_of_tag: tuple[int, ...] = entry(
        ListOf(Whole(0, MAX_QUEUES - 1), longest=TAG_COUNT),
        "Queue of each tag on the host's own link. Empty: the link is one queue.",
        default=(),
    )

    @classmethod
    def of(cls, policy: Policy) -> HostSettings:
        scheme = policy.definition
        return cls(
            scheme=policy.scheme,
            congestion_control=None if policy.only_watches else scheme.congestion_control,
            tags_deadlines=scheme.tags_deadlines,
            urgent_after_bytes=policy.urgent_after or 0,
            tags_sizes=scheme.tags_sizes,
            idle_gap_ns=policy.idle_gap_ms * NS_PER_MS,
            forgets_late=scheme.forgets_late,
            growth=None if policy.only_watches else policy.growth,
            reserved_dscp=policy.reserved_dscp,
            queue_of_tag=host_queue_map(policy) if policy.host_queues and not policy.only_watches else (),
        )


@dataclass(frozen=True)
class AgentSettings:
    """The settings that the current policy needs from an agent. Before the first policy there are none."""

    policy_version: int = entry(_VERSION, "Version of the policy; 0 before the first.")
    host: HostSettings | None = entry(TableOf(HostSettings), "For agents on hosts.", default=None)
    ports: PortBehaviour | None = entry(TableOf(PortBehaviour), "For agents on switch ports.", default=None)
    renew: bool = entry(Flag(), "Whether the agent must renew its certificate now.", default=False)
    capture: CaptureOrder | None = entry(
        TableOf(CaptureOrder), "Packets that a port agent must capture now.", default=None
    )

    @classmethod
    def of(cls, version: int, policy: Policy) -> AgentSettings:
        return cls(version, HostSettings.of(policy), policy.port_behaviour)


NO_SETTINGS = AgentSettings(0)

# ── Heartbeats ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class LivingConnection:
    """An open TCP connection of any program, reported by the host that sends most of its data."""

    id: str = entry(names.FLOW_ID, "Id of the connection's future flow record.")
    src: str = entry(names.ENDPOINT, "Name or address of the sender.")
    src_port: int = entry(_TCP_PORT, "The sender's TCP port.")
    dst: str = entry(names.ENDPOINT, "Name or address of the receiver.")
    dst_port: int = entry(_TCP_PORT, "The receiver's TCP port.")
    bytes: int = entry(_BYTES, "Payload so far.")
    rate_bps: int = entry(_COUNT, "Rate over about the last second.")
    started_at: float = entry(_EPOCH_S, "Epoch seconds.")
    deadline_at: float | None = entry(
        _EPOCH_S, "Deadline in epoch seconds, declared by the program.", nullable=True
    )
    retransmissions: int | None = entry(
        _COUNT, "Retransmitted segments. Null if only the receiver is watched.", nullable=True
    )
    congestion_control: str = entry(names.AGENT, "TCP_CONGESTION name.")
    srtt_us: float | None = entry(Number(0, 1e12, "us"), "Smoothed round-trip time.", nullable=True)


@dataclass(frozen=True)
class WatchStatus:
    """The status of a host's flow watch."""

    watching: bool = entry(Flag(), "Whether the kernel reports the connections of other programs.")
    problem: str = entry(_REASON, "Why it does not; empty if it does.", default="")
    recorded: int = entry(_COUNT, "Connections that became flow records.", default=0)
    lost: int = entry(_COUNT, "Connections that the watch missed.", default=0)
    living: int = entry(_COUNT, "Connections that are open now.", default=0)
    connections: tuple[LivingConnection, ...] = entry(
        ListOf(TableOf(LivingConnection), longest=MAX_CONNECTIONS),
        "The fastest open connections.",
        default=(),
    )


@dataclass(frozen=True)
class HostHeartbeat:
    """The status of a host's agent."""

    KIND: ClassVar[str] = "host"

    pid: int = entry(_PID, "Process id of the agent.")
    policy_version: int = entry(_VERSION, "Version of the settings in force.")
    congestion_control: str = entry(names.AGENT, "Congestion control of the schedule's new connections.")
    default_congestion_control: str = entry(
        names.AGENT, "Default congestion control of the host's network namespace."
    )
    fallback: bool = entry(Flag(), "Whether the host cannot do something that the scheme needs.")
    fallback_reason: str = entry(_REASON, "What the host cannot do, and why.")
    hook: bool = entry(Flag(), "Whether programs can declare flows by setsockopt().")
    hook_problem: str = entry(_REASON, "Why they cannot; empty if they can.")
    tagger: bool = entry(Flag(), "Whether packets leave with a tag.")
    spool_depth: int = entry(
        _COUNT, "Flow records that wait for delivery, or until the database's device has them."
    )
    records_refused: int = entry(_COUNT, "Flow records that the web process refused.")
    watch: WatchStatus = entry(TableOf(WatchStatus), "Status of the flow watch.")
    flows_started: int = entry(_COUNT, "Flows of the schedule that have started.")
    flows_finished: int = entry(_COUNT, "Flows of the schedule that have finished.")
    flows_unfinished: int = entry(_COUNT, "Flows of the schedule that ended without finishing.")
    flows_active: int = entry(_COUNT, "Flows of the schedule that are active.")
    flows_scheduled: int = entry(_COUNT, "All flows of the schedule.")
    schedule_done: bool = entry(Flag(), "Whether every flow of the schedule has ended.")
    flows_received: int = entry(_COUNT, "Flows that this host received.")
    bytes_received: int = entry(_BYTES, "Their payload.")
    retransmissions: int = entry(_COUNT, "Segments that flows of the schedule retransmitted.")
    timeouts: int = entry(_COUNT, "Retransmission timeouts of the schedule's flows.")
    realtime: bool = entry(Flag(), "Whether the agent has real-time priority.")
    controls_refused: int = entry(_COUNT, "Connections that could not use the congestion control.")
    flows_undeclared: int = entry(_COUNT, "Flows that could not be declared to the kernel.")
    start_lag_max_us: int = entry(_COUNT, "Greatest delay of a flow's start in the schedule, in us.")
    user_space_mean_us: float = entry(
        Number(0, 1e12, "us"), "Mean time from a packet's arrival in the kernel to its reading."
    )
    version: str = entry(_RELEASE, "Version of Sluice that the agent is.", default="")
    mac: str = entry(
        Text(r"([0-9a-f]{2}(:[0-9a-f]{2}){5})?", what="a MAC address in small letters, or empty"),
        "MAC address of the interface. The network knows the host by it.",
        default="",
    )
    tag_burst_bytes: int | None = entry(
        Whole(0, 10**6, "bytes"), "Most payload that can leave the host under one tag.", default=None
    )
    urgent_bytes: int | None = entry(
        _BYTES, "Bytes that left under urgency tags since the tagger was attached.", default=None
    )
    foreign_dscps: tuple[ForeignDscp, ...] = entry(
        ListOf(TableOf(ForeignDscp), longest=DSCPS), "DSCPs that others use on this host.", default=()
    )
    records_dropped: int = entry(
        _COUNT, "Flow records that were lost because neither disk nor memory had room.", default=0
    )
    link_queues: str = entry(
        Choice(("", *LINK_QUEUES)),
        "Qdisc that serves the host's own link by the scheme's queues. Empty: the agent leaves the link as it is.",
        default="",
    )
    link_problem: str = entry(
        _REASON, "Why the link has no such queues although the agent should make them.", default=""
    )
    disk_problem: str = entry(_REASON, "Why the disk takes no flow records; empty if it does.", default="")
    start_delays: tuple[int, ...] = entry(
        DELAY_COUNTS,
        "Flows of the schedule by the delay of their start, in units of their ideal FCT: below 1/8, 1/4, 1/2, 1, 2 …",
        default=NO_DELAYS,
    )
    answer_delays: tuple[int, ...] = entry(
        DELAY_COUNTS,
        "The same by the time from the last byte's arrival until the receiver has answered.",
        default=NO_DELAYS,
    )
    running: tuple[RunningFlow, ...] = entry(
        ListOf(TableOf(RunningFlow), longest=MAX_RUNNING),
        "Flows of the schedule that are under way, those that began first.",
        default=(),
    )
    link: LinkCounters | None = entry(
        TableOf(LinkCounters), "Counters of the host's own link. Null: it has none.", default=None
    )


@dataclass(frozen=True)
class QueueCounters:
    """Counters of one queue of a port, since its program was attached."""

    packets: int = entry(_COUNT, "Forwarded packets, marked or not.")
    bytes: int = entry(_BYTES, "Their bytes, with the Ethernet header.")
    marked: int = entry(_COUNT, "Packets that this queue marked (CE).")
    dropped: int = entry(_COUNT, "Packets that exceeded the buffer.")
    not_markable: int = entry(_COUNT, "Packets due for a mark that were not ECN-capable, or had one already.")


@dataclass(frozen=True)
class PortHeartbeat:
    """The status of the switches' ports."""

    KIND: ClassVar[str] = "port"

    pid: int = entry(_PID, "Process id of the agent.")
    policy_version: int = entry(_VERSION, "Version of the settings in force.")
    behaviour: PortBehaviour = entry(TableOf(PortBehaviour), "Settings in force at the ports.")
    shares_stand: bool = entry(Flag(), "Whether Open vSwitch has applied the shares.")
    attached: Mapping[str, int] = entry(
        MapOf(names.INTERFACE, _COUNT, MAX_PORTS), "Interface: how often its program was attached."
    )
    at: float = entry(Number(0, 1e12, "s"), "Time of the reading by the machine's CLOCK_MONOTONIC.")
    ports: Mapping[str, tuple[QueueCounters, ...]] = entry(
        MapOf(names.PORT, ListOf(TableOf(QueueCounters), longest=MAX_QUEUES), MAX_PORTS),
        "Port: counters of each queue.",
    )
    late_ns: Mapping[str, int] = entry(
        MapOf(names.PORT, _COUNT, MAX_PORTS), "Port: sum of the delays with which the machine served it."
    )
    version: str = entry(_RELEASE, "Version of Sluice that the agent is.", default="")
    problems: tuple[str, ...] = entry(
        ListOf(_REASON, longest=MAX_PORTS), "What the operator must mend at the ports.", default=()
    )
    forwarding: tuple[int, ...] = entry(
        DELAY_COUNTS,
        "Sampled packets by the time that the switch took to forward them, in units of a full frame's time at the port:"
        " below 1/8, 1/4, 1/2, 1, 2 … Only an emulated network measures it.",
        default=NO_DELAYS,
    )
    machine: MachineStatus | None = entry(
        TableOf(MachineStatus),
        "How well the machine served the ports lately. Null: not known yet.",
        default=None,
    )


@dataclass(frozen=True)
class SimulatorHeartbeat:
    """The status of a simulated network. A network with this heartbeat is simulated."""

    KIND: ClassVar[str] = "simulator"

    pid: int = entry(_PID, "Process id of the simulator.")
    elapsed_s: float = entry(Number(0, 1e11, "s"), "Time of the wall clock since the start.")
    simulated_s: float = entry(Number(0, 1e11, "s"), "Simulated time since the start.")
    dilation: float = entry(
        Number(1, 1e9), "Seconds of the wall clock for each simulated second, lately. 1 is real time."
    )


Heartbeat: TypeAlias = HostHeartbeat | PortHeartbeat | SimulatorHeartbeat
HEARTBEATS: Mapping[str, type[Heartbeat]] = {cls.KIND: cls for cls in (HostHeartbeat, PortHeartbeat)}
"""What agents send."""
STORED_HEARTBEATS: Mapping[str, type[Heartbeat]] = {
    **HEARTBEATS,
    SimulatorHeartbeat.KIND: SimulatorHeartbeat,
}
"""What the store holds. No agent can declare a network simulated, because the simulator writes to the store itself."""


def programmed_ports(heartbeats: Iterable[Heartbeat]) -> frozenset[str]:
    """Return the ids of the ports that port agents report. They keep the port program if their agent ends."""
    reports = (beat for beat in heartbeats if isinstance(beat, PortHeartbeat))
    return frozenset(port for report in reports for port in report.ports)


def heartbeat_from(document: object, kinds: Mapping[str, type[Heartbeat]] = HEARTBEATS) -> Heartbeat:
    """Check the document of a heartbeat of one of these kinds. Raises FieldError that names the key."""
    if not isinstance(document, Mapping):
        raise FieldError("heartbeat", "must be an object with the agent's kind and status")
    kind = document.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise FieldError("kind", f"must be one of {', '.join(kinds)}")
    return read(kinds[kind], {key: value for key, value in document.items() if key != "kind"})


def heartbeat_document(heartbeat: Heartbeat) -> dict[str, Any]:
    """The inverse of `heartbeat_from`."""
    return {"kind": heartbeat.KIND, **write(heartbeat)}
