# SPDX-License-Identifier: Apache-2.0
"""Runs a host's part of a schedule: every flow at its time, every flow one record."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from hostagent.journal import Journal, resume
from hostagent.loop import Loop
from hostagent.records import RESTARTED, RUN_ENDED, unfinished
from hostagent.sender import ActiveFlow, Sender
from hostagent.spool import Spool
from policy.records import FINISHED, FlowRecord
from policy.schedule import Schedule
from policy.units import NS_PER_S

log = logging.getLogger(__name__)

CHECKPOINT_LINES = 5000


@dataclass(frozen=True)
class Transport:
    """What new flows use; replaced as a whole when the policy changes."""

    congestion_control: str | None
    """None: the namespace's default."""
    scheme: str


@dataclass
class TrafficStatistics:
    """Since the agent's start, but for what an earlier process of the same run had done."""

    started: int = 0
    finished: int = 0
    unfinished: int = 0
    retransmissions: int = 0
    timeouts: int = 0
    """Retransmission timeouts."""
    start_lag_max_us: float = 0.0
    """How much later than scheduled a flow has started, at most."""


class Traffic:
    """`begin` takes up the past and the schedule; then everything happens in the loop."""

    def __init__(
        self, loop: Loop, schedule: Schedule, sender: Sender, spool: Spool, journal: Journal, grace_s: float
    ) -> None:
        self._loop = loop
        self._schedule = schedule
        self._sender = sender
        self._spool = spool
        self._journal = journal
        self._grace_s = grace_s
        self._next = 0
        self._active: dict[int, ActiveFlow] = {}
        self.statistics = TrafficStatistics()
        self.transport = Transport(None, schedule.scheme)
        self.done = False
        """All flows of the schedule are recorded."""

    @property
    def active(self) -> int:
        return len(self._active)

    @property
    def epoch_ns(self) -> int:
        """CLOCK_MONOTONIC when the schedule begins; known once `begin` was called."""
        return self._epoch_ns

    def begin(self, start_at: float) -> None:
        """Close what an earlier process left open and run the schedule from `start_at`, a second of the epoch."""
        self._start_at = start_at
        self._epoch_ns = round(start_at * NS_PER_S) - (time.time_ns() - time.monotonic_ns())
        resumption = resume(self._journal.past(), self._schedule, start_at, self._spool.ids(), time.time())
        for record in resumption.records:
            self._keep(record)
        self._next = resumption.next_sequence
        self._checkpoint()
        end_ns = self._due_ns(self._schedule.last_s + self._grace_s)
        self._loop.call_at(end_ns, lambda: self._sender.abandon(RUN_ENDED))
        self._plan_next()

    def stop(self, reason: str) -> None:
        """Record the active flows as unfinished; nothing starts any more."""
        self._next = len(self._schedule.flows)
        self._sender.abandon(reason)

    def _due_ns(self, start_s: float) -> int:
        return self._epoch_ns + round(start_s * NS_PER_S)

    def _plan_next(self) -> None:
        if self._next < len(self._schedule.flows):
            due_ns = self._due_ns(self._schedule.flows[self._next].start_s)
            self._loop.call_at(due_ns, self._start_due)
        else:
            self.done = not self._active

    def _start_due(self) -> None:
        """Start one flow; the loop serves its sockets before the next one, even if that is due already."""
        if self._next >= len(self._schedule.flows):
            return
        sequence, self._next = self._next, self._next + 1
        self._start(sequence)
        self._plan_next()

    def _start(self, sequence: int) -> None:
        flow, transport = self._schedule.flows[sequence], self.transport
        lag_us = (time.monotonic_ns() - self._due_ns(flow.start_s)) / 1000
        self.statistics.start_lag_max_us = max(self.statistics.start_lag_max_us, lag_us)
        begun = unfinished(
            flow,
            RESTARTED,
            started_at=time.time(),
            scheme=transport.scheme,
            congestion_control=transport.congestion_control or "default",
        )
        if self._journal.lines >= CHECKPOINT_LINES:
            self._checkpoint(before=sequence)
        self._journal.start(sequence, begun)
        ends_ns = None if flow.until_s is None else self._due_ns(flow.until_s)
        active = ActiveFlow(sequence, flow, begun, self._on_done, ends_ns)
        self._active[sequence] = active
        self.statistics.started += 1
        self._sender.start(active, self._schedule.addresses[flow.dst], transport.congestion_control)

    def _on_done(self, active: ActiveFlow, record: FlowRecord, timeouts: int) -> None:
        self._keep(record)
        del self._active[active.sequence]
        self.statistics.retransmissions += record.retransmissions or 0
        self.statistics.timeouts += timeouts
        self.done = self._next >= len(self._schedule.flows) and not self._active

    def _keep(self, record: FlowRecord) -> None:
        self._spool.append(record)
        if record.status == FINISHED:
            self.statistics.finished += 1
        else:
            self.statistics.unfinished += 1

    def _checkpoint(self, before: int | None = None) -> None:
        """Forget the flows that are over, so that journal and spool stay small however long the run is."""
        segment = self._spool.rotate()
        active = [(sequence, flow.begun) for sequence, flow in self._active.items()]
        self._journal.begin(self._start_at, self._next if before is None else before, active)
        self._spool.forget_before(segment)
