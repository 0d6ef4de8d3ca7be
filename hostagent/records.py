# SPDX-License-Identifier: Apache-2.0
"""The record of a scheduled flow, as far as its sender knows it: pure."""

from __future__ import annotations

import json
from dataclasses import replace

from policy.records import BACKGROUND, FINISHED, MAX_REASON, SCHEDULED, UNFINISHED, FlowRecord, size_class
from policy.schedule import ScheduledFlow
from policy.units import NS_PER_S, NS_PER_US

RESTARTED = "agent restarted"
AGENT_DOWN = "agent was down at the start time"
STOPPED = "agent stopped"
QUENCHED = "quenched"
RUN_ENDED = "not finished when the run ended"
CLOCKS_DISAGREE = "arrived before it was sent: the clocks of sender and receiver disagree"


def unfinished(
    flow: ScheduledFlow,
    reason: str,
    *,
    started_at: float,
    scheme: str,
    congestion_control: str,
    retransmissions: int = 0,
) -> FlowRecord:
    """Record of a flow that did not finish; one with a deadline has missed it, unless it was meant to be endless."""
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
        retransmissions=retransmissions,
        congestion_control=congestion_control,
        scheme=scheme,
        status=UNFINISHED,
        reason=reason[:MAX_REASON],
        source=BACKGROUND if flow.endless else SCHEDULED,
    )


def grown(begun: FlowRecord, size_bytes: int) -> FlowRecord:
    """Record of an endless flow that has come to this size."""
    return replace(begun, bytes=size_bytes, size_class=size_class(size_bytes))


def finished(
    begun: FlowRecord, *, started_ns: int, arrived_ns: int, retransmissions: int, congestion_control: str
) -> FlowRecord:
    """Record of a flow whose last byte arrived at `arrived_ns`; both times are CLOCK_REALTIME.

    `begun` is its record so far. On one machine the clock is one; on several they must be disciplined (PTP).
    """
    fct_us = (arrived_ns - started_ns) / NS_PER_US
    record = replace(
        begun,
        started_at=started_ns / NS_PER_S,
        retransmissions=retransmissions,
        congestion_control=congestion_control,
    )
    if fct_us < 0:
        return replace(record, reason=CLOCKS_DISAGREE)
    met = None if begun.deadline_us is None else fct_us <= begun.deadline_us
    return replace(record, fct_us=fct_us, met=met, status=FINISHED, reason="")


def failed(begun: FlowRecord, reason: str, retransmissions: int) -> FlowRecord:
    """Record of a flow that went wrong after it was begun."""
    return replace(begun, retransmissions=retransmissions, reason=reason[:MAX_REASON])


def to_json(record: FlowRecord) -> str:
    """The record as one line of JSON. Its fields are plain values: no need to copy them deeply, twice a flow."""
    return json.dumps(vars(record), separators=(",", ":"))
