# SPDX-License-Identifier: Apache-2.0
"""The record of one flow, which agents deliver, the store keeps, and every report evaluates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sluice.policy import names
from sluice.policy.entries import entry, read
from sluice.policy.errors import FieldError
from sluice.policy.framing import MAX_FLOW_BYTES
from sluice.policy.kinds import Choice, Flag, Line, Number, Whole

SMALL_LIMIT_BYTES = 100_000
MEDIUM_LIMIT_BYTES = 10_000_000
SIZE_CLASSES = ("small", "medium", "large")
FINISHED, UNFINISHED = "finished", "unfinished"
SCHEDULED, WATCHED, BACKGROUND = "scheduled", "watched", "background"
SOURCES = (SCHEDULED, WATCHED, BACKGROUND)
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
        names.FLOW_ID,
        "Unique over runs. Delivering a record again changes nothing. The store keeps the record of an agent"
        " with a certificate as AGENT@ID.",
    )
    src: str = entry(names.ENDPOINT, "Name of the sending host, or its address if the name is unknown.")
    dst: str = entry(names.ENDPOINT, "The same of the receiving host.")
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
    deadline_us: float | None = entry(_TIME_US, "Declared deadline, from the start.", nullable=True)
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
    congestion_control: str = entry(names.AGENT, "Congestion control of the connection.")
    scheme: str = entry(names.SCHEME, "Scheme that was in force at the host.")
    status: str = entry(Choice((FINISHED, UNFINISHED)), "finished or unfinished.")
    reason: str = entry(Line(longest=MAX_REASON), "Why an unfinished flow did not finish.", default="")
    source: str = entry(Choice(SOURCES), "scheduled, watched or background.", default=SCHEDULED)
    src_port: int | None = entry(_TCP_PORT, "TCP port of a watched flow's sender.", default=None)
    dst_port: int | None = entry(_TCP_PORT, "TCP port of a watched flow's receiver.", default=None)
    lasted_us: float | None = entry(
        _TIME_US, "Life of a watched flow's connection, silence included.", default=None
    )
    timeouts: int | None = entry(_COUNT, "Retransmission timeouts of a watched flow.", default=None)
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
        Line(longest=MAX_LABEL), "Label of a scheduled flow in its scenario. Null without one.", default=None
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
ONLY_IF_WATCHED = ("src_port", "dst_port", "lasted_us", "timeouts", "srtt_us", "ack_wait_us")
ONLY_ON_TWO_MACHINES = ("clock_error_us",)
ONLY_IF_LABELLED = ("label",)
