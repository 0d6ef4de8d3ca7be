# SPDX-License-Identifier: Apache-2.0
"""The documents that agents and the web process exchange: heartbeats, and the settings that answer them.

Both ends read and write these documents through `sluice.policy.schema.entries`, so a key that one end renames is
an error at the other. Every number, text and list is bounded.

A host's heartbeat has its scheduled flows that are under way, the counters of its own link, and uses of the DSCP by
others: programs, netfilter rules and containers that set it before the tagger does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from sluice.policy.controls import PARAMETERS_MAX
from sluice.policy.errors import FieldError
from sluice.policy.figures.validity import DELAY_COUNTS, NO_DELAYS, MachineStatus
from sluice.policy.network.description import DeclaredPort
from sluice.policy.schema import entries
from sluice.policy.schema.desired import DSCPS, Policy, PortBehaviour, host_queue_map
from sluice.policy.schema.entries import TableOf, entry, read, write
from sluice.policy.schema.field_kinds import MAX_GROWTH, MAX_QUEUES
from sluice.policy.schema.kinds import Choice, Flag, Line, ListOf, MapOf, Number, Text, Whole
from sluice.policy.schemes import epochs, ports
from sluice.policy.tags import TAG_COUNT
from sluice.policy.units import NS_PER_MS
from sluice.policy.wire.records import MAX_LABEL

MAX_RUNNING = 100

_COUNT = Whole(0, 2**63 - 1)
_BYTES = Whole(0, 2**63 - 1, "bytes")
_EPOCH_S = Number(0, 1e11, "s")
_STORE_S = Number(0, 1e11, "s")


@dataclass(frozen=True)
class RunningFlow:
    """A scheduled flow that its sender has started and not finished."""

    id: str = entry(entries.FLOW_ID, "Id of the future flow record.")
    dst: str = entry(entries.ENDPOINT, "Receiving host.")
    label: str = entry(Line(longest=MAX_LABEL), "Label in the scenario; empty without one.")
    bytes: int | None = entry(_BYTES, "Payload. Null: the flow is endless.", nullable=True)
    acked_bytes: int | None = entry(
        _BYTES, "Payload that has been acknowledged. Null: unknown.", nullable=True
    )
    started_at: float = entry(_EPOCH_S, "Epoch seconds.")
    deadline_at: float | None = entry(_EPOCH_S, "Deadline in epoch seconds.", nullable=True)
    retransmissions: int | None = entry(
        _COUNT, "Segments retransmitted so far. Null: unknown.", nullable=True
    )
    congestion_control: str = entry(entries.AGENT, "TCP_CONGESTION name.")
    srtt_us: float | None = entry(
        Number(0, 1e12, "us"), "Smoothed round-trip time. Null: unknown.", nullable=True
    )


@dataclass(frozen=True)
class LinkQueue:
    """One queue of the host's own link, since it was made."""

    sent_bytes: int = entry(_BYTES, "Bytes that left through the queue.")
    dropped: int = entry(_COUNT, "Packets that it dropped.")
    waiting_bytes: int = entry(_BYTES, "Bytes that wait in it now.")


@dataclass(frozen=True)
class LinkCounters:
    """What the host's own link has carried."""

    at: float = entry(Number(0, 1e12, "s"), "Time of the reading by the machine's CLOCK_MONOTONIC.")
    sent_bytes: int = entry(_BYTES, "Bytes that left through the interface.")
    received_bytes: int = entry(_BYTES, "Bytes that arrived at it.")
    dropped: int = entry(_COUNT, "Packets that its queues or its driver dropped on the way out.")
    waiting_bytes: int = entry(_BYTES, "Bytes that wait in its queues now.")
    sent_bps: int | None = entry(
        _COUNT, "Sending rate since the last heartbeat. Null: unknown.", default=None
    )
    received_bps: int | None = entry(
        _COUNT, "Receiving rate since the last heartbeat. Null: unknown.", default=None
    )
    queues: tuple[LinkQueue, ...] = entry(
        ListOf(TableOf(LinkQueue), longest=MAX_QUEUES),
        "The scheme's queues, the first served first. Empty: the link has none that can be counted.",
        default=(),
    )


_USES = Whole(0, 2**63 - 1, "packets")
_PORT = Whole(0, 65_535)
_PROTOCOLS = {6: "TCP", 17: "UDP", 132: "SCTP"}
_CLASSES = {8: "CS1", 16: "CS2", 24: "CS3", 32: "CS4", 40: "CS5", 44: "VA", 46: "EF", 48: "CS6", 56: "CS7"}
"""RFC 2474, 3246, 5865. Class AFxy is 8x + 2y (RFC 2597)."""


@dataclass(frozen=True)
class ForeignDscp:
    """A DSCP that packets of a host had before the tagger."""

    dscp: int = entry(Whole(1, DSCPS - 1), "The DSCP.")
    overwritten: int = entry(
        _USES, "Packets of local sockets and of guests that this host tags. TCP and UDP get a tag instead."
    )
    forwarded: int = entry(
        _USES,
        "Packets of others, mostly of containers and virtual machines that are no guests of the agent. They keep it.",
    )
    protocol: int = entry(Whole(0, 255), "IP protocol of a recent local packet; 0 for none.")
    src_port: int = entry(_PORT, "Its source port; 0 for none.")
    dst_port: int = entry(_PORT, "Its destination port; 0 if its socket is not connected.")

    def __str__(self) -> str:
        """For example "DSCP 46 (EF) from UDP port 5060 to port 5060, also without a local socket"."""
        title = _CLASSES.get(self.dscp, "")
        group, doubled_precedence = divmod(self.dscp, 8)
        if 1 <= group <= 4 and doubled_precedence in (2, 4, 6):
            title = f"AF{group}{doubled_precedence // 2}"
        name = f"DSCP {self.dscp} ({title})" if title else f"DSCP {self.dscp}"
        if not self.overwritten:
            return f"{name} in packets without a local socket"
        protocol = _PROTOCOLS.get(self.protocol, f"IP protocol {self.protocol}")
        to = f" to port {self.dst_port}" if self.dst_port else ""
        source = f" from {protocol} port {self.src_port}{to}" if self.src_port else f" from {protocol}"
        return f"{name}{source}{', also without a local socket' if self.forwarded else ''}"


def new_uses(before: Iterable[ForeignDscp], now: Iterable[ForeignDscp]) -> list[ForeignDscp]:
    """Return the uses whose DSCP the earlier report lacks."""
    earlier = {use.dscp for use in before}
    return [use for use in now if use.dscp not in earlier]


MAX_HEARTBEAT_BYTES = 500_000
"""Maximum length of a heartbeat's JSON."""
MAX_CONNECTIONS = 100
MAX_ADDRESSES = 128
MAX_PORTS = 1024
LINK_QUEUES = ("prio", "htb", "fq")
"""Qdiscs with which a host can serve its own link by queues (dataplane/link_queues.py). Only an older agent has fq."""


_VERSION = Whole(0, 2**53)
_PID = Whole(1, 2**31)
_TCP_PORT = Whole(1, 65_535)

_REASON = Line(longest=1000)
_RELEASE = Line(longest=64)
_PORT_NAME = Text(r"[^:\s]{1,64}:\S{1,64}", what='a port such as "rack1:eth1"')


def reason(text: str) -> str:
    """Return a text for a heartbeat, cut to the maximum length."""
    return text.replace("\x00", "")[:1000]


# ── Settings: the answer to a heartbeat ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class HostSettings:
    """The settings that the policy needs from a host."""

    scheme: str = entry(entries.SCHEME, "Scheme of the policy, for flow records.")
    congestion_control: str | None = entry(
        entries.AGENT, "TCP_CONGESTION name for new connections. Null: the host's own.", nullable=True
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
    parameters: tuple[int, ...] = entry(
        ListOf(Whole(0, 2**32 - 1), longest=PARAMETERS_MAX),
        "Values of the parameters of the congestion control, in the order of its file.",
        default=(),
    )
    reserved_dscp: tuple[int, ...] = entry(
        ListOf(Whole(ports.LOWEST, ports.HIGHEST), longest=ports.MOST),
        "DSCPs of others: no tag has them, and packets keep them.",
        default=(),
    )
    queue_of_tag: tuple[int, ...] = entry(
        ListOf(Whole(0, MAX_QUEUES - 1), longest=TAG_COUNT),
        "Queue of each tag on the host's own link. Empty: the link is one queue.",
        default=(),
    )
    level_rates_bps: tuple[int, ...] = entry(
        ListOf(Whole(1, 2**63 - 1), longest=MAX_QUEUES - 1),
        "Most that the host sends at level 1, 2 and so on. With any, tags are the levels that programs choose.",
        default=(),
    )
    level_bytes: tuple[int, ...] = entry(
        ListOf(_BYTES, longest=MAX_QUEUES - 1),
        "How much of it the host may send at once at each of these levels.",
        default=(),
    )
    acts: bool = entry(
        Flag(),
        "Whether the policy acts on this host. If not, the host only watches: packets keep their DSCP.",
        default=True,
    )

    @classmethod
    def of(cls, policy: Policy, *, acts: bool = True) -> HostSettings:
        scheme = policy.definition
        factors = policy.throughput_factors if acts and policy.epoch else ()
        return cls(
            scheme=policy.scheme,
            congestion_control=scheme.congestion_control if acts else None,
            tags_deadlines=scheme.tags_deadlines,
            urgent_after_bytes=policy.urgent_after or 0,
            tags_sizes=scheme.tags_sizes,
            idle_gap_ns=policy.idle_gap_ms * NS_PER_MS,
            forgets_late=scheme.forgets_late,
            growth=policy.growth if acts else None,
            parameters=policy.parameters.values if policy.parameters and acts else (),
            reserved_dscp=policy.reserved_dscp,
            queue_of_tag=host_queue_map(policy) if policy.host_queues and acts else (),
            level_rates_bps=epochs.level_rates_bps(factors, policy.epoch or 1),
            level_bytes=epochs.level_bytes(factors),
            acts=acts,
        )


@dataclass(frozen=True)
class AgentSettings:
    """The settings that the current policy needs from an agent. Before the first policy there are none."""

    policy_version: int = entry(_VERSION, "Version of the policy; 0 before the first.")
    host: HostSettings | None = entry(TableOf(HostSettings), "For agents on hosts.", default=None)
    ports: PortBehaviour | None = entry(TableOf(PortBehaviour), "For agents on switch ports.", default=None)
    queues: Mapping[str, tuple[int, ...]] = entry(
        MapOf(entries.PORT, ListOf(Whole(0, MAX_QUEUES - 1), longest=64), MAX_PORTS),
        "Port of a switch that forwards by itself: the queue of each DSCP.",
        default={},
    )
    answered_s: float | None = entry(
        _STORE_S, "Reading of the store's clock when the heartbeat was answered.", default=None
    )

    @classmethod
    def of(cls, version: int, policy: Policy, *, acts: bool = True) -> AgentSettings:
        """`acts`: whether the policy acts on the agent's host."""
        return cls(version, HostSettings.of(policy, acts=acts), policy.port_behaviour)


NO_SETTINGS = AgentSettings(0)

# ── Heartbeats ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class LivingConnection:
    """An open TCP connection of any program, reported by the host that sends most of its data."""

    id: str = entry(entries.FLOW_ID, "Id of the connection's future flow record.")
    src: str = entry(entries.ENDPOINT, "Name or address of the sender.")
    src_port: int = entry(_TCP_PORT, "The sender's TCP port.")
    dst: str = entry(entries.ENDPOINT, "Name or address of the receiver.")
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
    congestion_control: str = entry(entries.AGENT, "TCP_CONGESTION name.")
    srtt_us: float | None = entry(Number(0, 1e12, "us"), "Smoothed round-trip time.", nullable=True)
    label: str = entry(
        Line(longest=MAX_LABEL), "Container of the program; empty for a program of the host.", default=""
    )


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
    addresses: tuple[str, ...] = entry(
        ListOf(entries.IP_ADDRESS, longest=MAX_ADDRESSES),
        "Addresses of the containers whose connections it has reported in the last minutes, the newest first.",
        default=(),
    )


@dataclass(frozen=True)
class HostHeartbeat:
    """The status of a host's agent."""

    KIND: ClassVar[str] = "host"

    pid: int = entry(_PID, "Process id of the agent.")
    policy_version: int = entry(_VERSION, "Version of the settings in force.")
    congestion_control: str = entry(entries.AGENT, "Congestion control of the schedule's new connections.")
    default_congestion_control: str = entry(
        entries.AGENT, "Default congestion control of the host's network namespace."
    )
    fallback: bool = entry(Flag(), "Whether the host cannot do something that the scheme needs.")
    fallback_reason: str = entry(_REASON, "What the host cannot do, and why.")
    hook: bool = entry(Flag(), "Whether programs can declare flows by setsockopt().")
    hook_problem: str = entry(_REASON, "Why they cannot; empty if they can.")
    tagger: bool = entry(Flag(), "Whether packets leave with a tag.")
    spool_depth: int = entry(_COUNT, "Flow records that wait for delivery.")
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
    answered_s: float | None = entry(
        _STORE_S, "Of the newest answer when they were counted; 0 before the first.", default=None
    )
    foreign_dscps: tuple[ForeignDscp, ...] = entry(
        ListOf(TableOf(ForeignDscp), longest=DSCPS), "DSCPs that others use on this host.", default=()
    )
    guests: int = entry(_COUNT, "Interfaces of guests whose packets the host tags.", default=0)
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
class TagCounters:
    """What a port was given under one DSCP, since its program was attached."""

    dscp: int = entry(Whole(0, 63), "The DSCP: a tag, or that of others.")
    packets: int = entry(_COUNT, "Packets, also those that the port dropped.")
    bytes: int = entry(_BYTES, "Their bytes, with the Ethernet header.")
    ends: int = entry(_COUNT, "TCP packets among them that end a direction of a connection.")


@dataclass(frozen=True)
class PortHeartbeat:
    """The status of the switches' ports."""

    KIND: ClassVar[str] = "port"

    pid: int = entry(_PID, "Process id of the agent.")
    policy_version: int = entry(_VERSION, "Version of the settings in force.")
    behaviour: PortBehaviour = entry(TableOf(PortBehaviour), "Settings in force at the ports.")
    shares_stand: bool = entry(Flag(), "Whether Open vSwitch has applied the shares.")
    attached: Mapping[str, int] = entry(
        MapOf(entries.INTERFACE, _COUNT, MAX_PORTS), "Interface: how often its program was attached."
    )
    at: float = entry(Number(0, 1e12, "s"), "Time of the reading by the machine's CLOCK_MONOTONIC.")
    ports: Mapping[str, tuple[QueueCounters, ...]] = entry(
        MapOf(entries.PORT, ListOf(TableOf(QueueCounters), longest=MAX_QUEUES), MAX_PORTS),
        "Port: counters of each queue.",
    )
    late_ns: Mapping[str, int] = entry(
        MapOf(entries.PORT, _COUNT, MAX_PORTS), "Port: sum of the delays with which the machine served it."
    )
    tags: Mapping[str, tuple[TagCounters, ...]] = entry(
        MapOf(entries.PORT, ListOf(TableOf(TagCounters), longest=64), MAX_PORTS),
        "Port of a switch that forwards by itself: what it was given, by DSCP.",
        default={},
    )
    version: str = entry(_RELEASE, "Version of Sluice that the agent is.", default="")
    problems: tuple[str, ...] = entry(
        ListOf(_REASON, longest=MAX_PORTS), "What the operator must mend at the ports.", default=()
    )
    unkept: Mapping[str, str] = entry(
        MapOf(_PORT_NAME, _REASON, MAX_PORTS),
        "Port with VLANs or bonds that rules of the controller would not keep: what an operator must know of it.",
        default={},
    )
    columns: Mapping[str, DeclaredPort] = entry(
        MapOf(_PORT_NAME, TableOf(DeclaredPort), MAX_PORTS),
        "Port with VLANs in Open vSwitch: these, as a description names them.",
        default={},
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


def bridging_switches(heartbeats: Iterable[Heartbeat]) -> frozenset[str]:
    """Return the switches that keep their own forwarding, because rules would not keep their VLANs or bonds."""
    reports = (beat for beat in heartbeats if isinstance(beat, PortHeartbeat))
    return frozenset(port.partition(":")[0] for report in reports for port in report.unkept)


def reported_columns(heartbeats: Iterable[Heartbeat]) -> dict[str, DeclaredPort]:
    """Return the VLANs of ports that port agents report, by port ("rack1:eth1")."""
    reports = (beat for beat in heartbeats if isinstance(beat, PortHeartbeat))
    return {where: port for report in reports for where, port in report.columns.items()}


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
