# SPDX-License-Identifier: Apache-2.0
"""Makes the record of a scheduled flow from what its sender knows, and its JSON. Pure functions."""

import json
from dataclasses import replace

from sluice.policy.units import NS_PER_S, NS_PER_US
from sluice.policy.wire import records
from sluice.policy.wire.records import FlowRecord, ScheduledFlow

RESTARTED = "agent restarted"
AGENT_DOWN = "agent was down at the start time"
STOPPED = "agent stopped"
QUENCHED = "quenched"
RUN_ENDED = "not finished when the run ended"
CLOCK_STEPPED = "arrived before it was sent: the clock of the machine has stepped"


def unfinished(
    flow: ScheduledFlow,
    reason: str,
    *,
    started_at: float,
    scheme: str,
    congestion_control: str,
) -> FlowRecord:
    """Return the record of a flow that did not finish, so it missed its deadline if it has one.

    The record of an endless flow has no deadline, because such a flow is background traffic.
    """
    deadline_us = None if flow.endless else flow.deadline_us
    return FlowRecord(
        id=flow.id,
        src=flow.src,
        dst=flow.dst,
        bytes=flow.bytes,
        size_class=flow.size_class,
        started_at=started_at,
        fct_us=None,
        ideal_us=None if flow.endless else flow.ideal_us,
        deadline_us=deadline_us,
        met=None if deadline_us is None else False,
        retransmissions=0,
        congestion_control=congestion_control,
        scheme=scheme,
        status=records.UNFINISHED,
        reason=reason[: records.MAX_REASON],
        source=records.BACKGROUND if flow.endless else records.SCHEDULED,
        label=flow.label or None,
    )


def with_size(record: FlowRecord, size_bytes: int) -> FlowRecord:
    """Return the record of an endless flow with the size that it has reached."""
    return replace(record, bytes=size_bytes, size_class=records.size_class(size_bytes))


def finished(
    initial: FlowRecord,
    *,
    started_ns: int,
    arrived_ns: int,
    retransmissions: int,
    congestion_control: str,
    clock_error_ns: int | None = None,
) -> FlowRecord:
    """Return the record of a flow whose last byte arrived at `arrived_ns`.

    `initial` is its record so far. Both times are the sender's CLOCK_REALTIME. If the receiver is on another machine,
    `arrived_ns` may be wrong by `clock_error_ns`.
    """
    fct_us = (arrived_ns - started_ns) / NS_PER_US
    record = replace(
        initial,
        started_at=started_ns / NS_PER_S,
        retransmissions=retransmissions,
        congestion_control=congestion_control,
        clock_error_us=None if clock_error_ns is None else clock_error_ns / NS_PER_US,
    )
    if fct_us < 0:
        return replace(record, reason=CLOCK_STEPPED)
    met = None if initial.deadline_us is None else fct_us <= initial.deadline_us
    return replace(record, fct_us=fct_us, met=met, status=records.FINISHED, reason="")


def failed(initial: FlowRecord, reason: str, retransmissions: int) -> FlowRecord:
    """Return the record of a flow that failed after its start."""
    return replace(initial, retransmissions=retransmissions, reason=reason[: records.MAX_REASON])


def to_json(record: FlowRecord) -> str:
    """Return the record as one line of JSON, without the fields that are None.

    So a web process of an earlier version takes the record as long as no field has a value that it does not know.
    vars() replaces dataclasses.asdict(), whose deep copy would cost time twice for each flow.
    """
    there = {name: value for name, value in vars(record).items() if value is not None}
    return json.dumps(there, separators=(",", ":"))


def id_of(line: bytes) -> str:
    """Return the id of a record's line; empty for a damaged line."""
    try:
        return str(json.loads(line)["id"])
    except (ValueError, KeyError, TypeError):
        return ""  # the web process will refuse this line, so it goes to quarantine
