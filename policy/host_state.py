# SPDX-License-Identifier: Apache-2.0
"""Parts of a host's heartbeat: its scheduled flows that are under way, and the counters of its own link."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.policy import names
from sluice.policy.entries import TableOf, entry
from sluice.policy.field_entry import MAX_QUEUES
from sluice.policy.kinds import Line, ListOf, Number, Whole
from sluice.policy.records import MAX_LABEL

MAX_RUNNING = 100

_COUNT = Whole(0, 2**63 - 1)
_BYTES = Whole(0, 2**63 - 1, "bytes")
_EPOCH_S = Number(0, 1e11, "s")


@dataclass(frozen=True)
class RunningFlow:
    """A scheduled flow that its sender has started and not finished."""

    id: str = entry(names.FLOW_ID, "Id of the future flow record.")
    dst: str = entry(names.ENDPOINT, "Receiving host.")
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
    congestion_control: str = entry(names.AGENT, "TCP_CONGESTION name.")
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
