# SPDX-License-Identifier: Apache-2.0
"""The record of one flow, which agents deliver, the store keeps, and every report evaluates.

The schedule of a run is here, too: the run writes it for the agent of each host, and the agent reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sluice.policy.errors import FieldError
from sluice.policy.schema import entries
from sluice.policy.schema.entries import TableOf, entry, read
from sluice.policy.schema.field_kinds import MAX_QUEUES
from sluice.policy.schema.kinds import Choice, Flag, Line, ListOf, MapOf, Number, Text, Whole
from sluice.policy.units import MAX_FLOW_BYTES, MIN_FLOW_BYTES

SMALL_LIMIT_BYTES = 100_000
MEDIUM_LIMIT_BYTES = 10_000_000
SIZE_CLASSES = ("small", "medium", "large")
FINISHED, UNFINISHED = "finished", "unfinished"
SCHEDULED, WATCHED, BACKGROUND = "scheduled", "watched", "background"
SOURCES = (SCHEDULED, WATCHED, BACKGROUND)
WARM_UP = "warm-up"
"""Source of a flow that the simulator does not measure. Only bundles have it."""
ALL = "all"
TRAFFIC = {SCHEDULED: (SCHEDULED,), WATCHED: (WATCHED,), ALL: (SCHEDULED, WATCHED)}
"""The choices of whose flows figures count, and the sources of each. No figure counts endless flows."""
MAX_REASON = 200
MAX_LABEL = 64

_TIME_US = Number(0, 10**12, "us")
_COUNT = Whole(0, 2**40)
_TCP_PORT = Whole(1, 65_535)


def size_class(size_bytes: int, scale: float = 1.0) -> str:
    """Return small <= 100 KB < medium <= 10 MB < large (as in the papers); the limits scale with
    the workload."""
    if size_bytes <= SMALL_LIMIT_BYTES * scale:
        return "small"
    return "medium" if size_bytes <= MEDIUM_LIMIT_BYTES * scale else "large"


@dataclass(frozen=True)
class FlowRecord:
    """One flow, finished or not. API, store and result bundles take its fields from here.

    A scheduled flow is one that an agent sent for a run. A run's summary has scheduled flows only. A
    watched flow is a flow of a TCP connection of any other program, as the kernel saw it. A
    background flow is an agent's endless flow.
    """

    id: str = entry(
        entries.FLOW_ID,
        "Unique over runs. Delivering a record again changes nothing. The store keeps the record of an agent"
        " with a certificate as AGENT@ID.",
    )
    src: str = entry(entries.ENDPOINT, "Name of the sending host, or its address if the name is unknown.")
    dst: str = entry(entries.ENDPOINT, "The same of the receiving host.")
    bytes: int = entry(
        Whole(1, MAX_FLOW_BYTES, "bytes"), "Payload; of a background flow, what arrived until its end."
    )
    size_class: str = entry(Choice(SIZE_CLASSES), "small, medium or large, by the workload's limits.")
    started_at: float = entry(Number(0, 10**11, "s"), "Start in seconds of the Unix epoch.")
    fct_us: float | None = entry(
        _TIME_US,
        "Flow completion time: from the sender's connect() to the last byte at the receiver. Of a watched flow, to"
        " the acknowledgement of the last byte. Null if unfinished.",
        nullable=True,
    )
    ideal_us: float | None = entry(
        Number(0.001, 10**12, "us"),
        "FCT of the same flow alone in the network. Null if the path is unknown.",
        nullable=True,
    )
    deadline_us: float | None = entry(
        _TIME_US,
        "Declared deadline, from the start. Null also where nobody knows whether it was met: of a watched flow whose"
        " connection the other end has reset after all of it had been sent.",
        nullable=True,
    )
    met: bool | None = entry(
        Flag(),
        "Whether the deadline was met. Null without a deadline. An unfinished flow missed.",
        nullable=True,
    )
    retransmissions: int | None = entry(
        _COUNT,
        "Segments that the sender retransmitted. Null if only the receiver was watched.",
        nullable=True,
    )
    congestion_control: str = entry(entries.AGENT, "Congestion control of the connection.")
    scheme: str = entry(entries.SCHEME, "Scheme that was in force at the host.")
    status: str = entry(Choice((FINISHED, UNFINISHED)), "finished or unfinished.")
    reason: str = entry(Line(longest=MAX_REASON), "Why an unfinished flow did not finish.", default="")
    source: str = entry(Choice(SOURCES), "scheduled, watched or background.", default=SCHEDULED)
    src_port: int | None = entry(_TCP_PORT, "TCP port of a watched flow's sender.", default=None)
    dst_port: int | None = entry(_TCP_PORT, "TCP port of a watched flow's receiver.", default=None)
    lasted_us: float | None = entry(
        _TIME_US, "Life of a watched flow's connection, silence included.", default=None
    )
    timeouts: int | None = entry(
        _COUNT,
        "Retransmission timeouts of a flow that was watched or simulated. Null for other flows.",
        default=None,
    )
    srtt_us: float | None = entry(
        _TIME_US, "Smoothed round-trip time at the end of a watched flow.", default=None
    )

    ack_wait_us: float | None = entry(
        _TIME_US,
        "Of a watched flow: from the last transmission of its last byte to the acknowledgement. The FCT is too"
        " long by at most this much.",
        default=None,
    )
    clock_error_us: float | None = entry(
        _TIME_US,
        "Of a scheduled flow whose ends are on two machines: the FCT is wrong by at most this much, because of their"
        " clocks. Null on one machine.",
        default=None,
    )
    label: str | None = entry(
        Line(longest=MAX_LABEL),
        "Label of a scheduled flow in its scenario. Of a watched flow, the container of the end that reports it: its"
        " name, or the first digits of its id. Null without one.",
        default=None,
    )

    @property
    def slowdown(self) -> float | None:
        """FCT over ideal FCT."""
        return None if self.fct_us is None or self.ideal_us is None else self.fct_us / self.ideal_us

    @property
    def is_a_receivers(self) -> bool:
        """Whether the receiver's agent made the record. Only then, no one has counted retransmissions."""
        return self.source == WATCHED and self.retransmissions is None

    def to_document(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def from_document(cls, document: object) -> FlowRecord:
        """Check a record. Raises FieldError that names the first bad field."""
        record = read(cls, document)
        if (record.fct_us is None) != (record.status == UNFINISHED):
            raise FieldError("fct_us", "must be there exactly when the flow has finished")
        if (record.met is None) != (record.deadline_us is None):
            raise FieldError("met", "must be there exactly when the flow has a deadline")
        if record.source == SCHEDULED:
            for name in NEEDED_IF_SCHEDULED:
                if getattr(record, name) is None:
                    raise FieldError(name, "can be null only for flows that are not scheduled")
        return record


NEEDED_IF_SCHEDULED = ("ideal_us", "retransmissions")
UNKNOWN_TO_A_RECEIVER = ("deadline_us", "timeouts", "ack_wait_us")
"""What only a sender can know, besides the retransmissions."""
ONLY_IF_WATCHED = ("src_port", "dst_port", "lasted_us", "srtt_us", "ack_wait_us")
ONLY_ON_TWO_MACHINES = ("clock_error_us",)
ONLY_IF_LABELLED = ("label",)


Quench = Literal["never", "kill", "suspend"]
QUENCH: tuple[Quench, ...] = ("never", "kill", "suspend")
"""What may happen to a flow that cannot meet its deadline (Zhang et al., section 3.3)."""
MAX_FLOWS = 10**7

_TIME_S = Number(0, 10**6, "s")

_ADDRESSES = MapOf(entries.ENDPOINT, entries.IP_ADDRESS, 10**5)


@dataclass(frozen=True, slots=True)
class ScheduledFlow:
    """One flow of a run."""

    id: str = entry(entries.FLOW_ID, "The run's id and the flow's number in it.")
    start_s: float = entry(_TIME_S, "Start, in seconds from the start of the run.")
    src: str = entry(entries.ENDPOINT, "Sending host.")
    dst: str = entry(entries.ENDPOINT, "Receiving host.")
    bytes: int = entry(
        Whole(MIN_FLOW_BYTES, MAX_FLOW_BYTES, "bytes"),
        "Payload; of an endless flow, the minimum that it sends.",
    )
    size_class: str = entry(Choice(SIZE_CLASSES), "small, medium or large.")
    ideal_us: float = entry(_TIME_US, "FCT of this flow alone in the network.")
    deadline_us: float | None = entry(_TIME_US, "Deadline, from the flow's start.", nullable=True)
    elapsed_us: float | None = entry(
        _TIME_US, "How long the flow waited in its program before its start.", default=None
    )
    until_s: float | None = entry(_TIME_S, "End of an endless flow, from the start of the run.", default=None)
    importance: float | None = entry(Number(0, 100), "Importance; a standard flow has 1.", default=None)
    importance_share: float | None = entry(
        Number(0, 1), "Share of the importance in the precedence; its urgency has the rest.", default=None
    )
    quench: Quench = entry(
        Choice(QUENCH), "What happens if the flow cannot meet its deadline.", default="never"
    )
    label: str = entry(Text(longest=64), "Name for samples and plots.", default="")
    congestion_control: str | None = entry(
        entries.AGENT, "TCP_CONGESTION name of its connection. Null: the policy's.", default=None
    )
    level: int | None = entry(
        Whole(1, MAX_QUEUES), "The level that the program chooses. Null: none.", default=None
    )
    size_known: bool = entry(Flag(), "The program declares how much it will send.", default=False)

    @property
    def endless(self) -> bool:
        """Whether the flow is sent until `until_s`. It is background traffic, not part of a run's result."""
        return self.until_s is not None


@dataclass(frozen=True)
class Schedule:
    """The flows of one host, by start time. A flow's index in `flows` is its sequence number."""

    scheme: str = entry(entries.SCHEME, "Scheme for flow records until the web process reports one.")
    connections: str = entry(Choice(("new", "persistent")), "As in a scenario's [transport].", default="new")
    sample_ms: int | None = entry(
        Whole(1, 10**6, "ms"), "Time between two samples of every flow. Null: no samples.", default=None
    )
    max_window: int | None = entry(
        Whole(1, 10**6, "packets"),
        "The most packets that senders to this host have in flight. Null: no limit.",
        default=None,
    )
    addresses: Mapping[str, str] = entry(_ADDRESSES, "Host: IPv4 address.", default={})
    addresses6: Mapping[str, str] = entry(
        _ADDRESSES, "Host: IPv6 address, to name the ends of other programs' connections.", default={}
    )
    flows: tuple[ScheduledFlow, ...] = entry(
        ListOf(TableOf(ScheduledFlow), longest=MAX_FLOWS), "The flows.", default=()
    )

    @property
    def persistent(self) -> bool:
        """Whether flows to one destination share connections, one after the other."""
        return self.connections == "persistent"

    @property
    def names(self) -> dict[str, str]:
        """Address → name of every host."""
        return {address: name for by in (self.addresses, self.addresses6) for name, address in by.items()}

    @property
    def last_s(self) -> float:
        """The time of the last flow's start, or of the last endless flow's end."""
        return max((flow.until_s or flow.start_s for flow in self.flows), default=0.0)

    def of_host(self, host: str) -> Schedule:
        """Return the part that a host sends, by start time."""
        mine = (flow for flow in self.flows if flow.src == host)
        return replace(self, flows=tuple(sorted(mine, key=lambda flow: flow.start_s)))
