# SPDX-License-Identifier: Apache-2.0
"""One switch's session: turns the operations of `state.py` into requests, and answers into facts.

First the controller becomes the switch's master, for a generation of the lease (`leadership.py`).
Until the switch has confirmed that, the session requests nothing else. At most one operation
runs at a time. It ends with its answer, with an error or with its time limit. The time limit also ends
the connection, because a switch that answers echo requests but not these cannot be relied on.

A session counts its work in a tally, on the way to the store's totals, and measures its control loop: from the request
for counters until the rules that follow are in force. The web process shows the totals in /metrics, so a controller
that restarts or takes over continues the counters of the one before it.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from sluice.controller import state as states
from sluice.controller.changes import Remap
from sluice.controller.openflow import answers, change, counters, read, request
from sluice.controller.openflow.frames import StatsType
from sluice.controller.port_settings import ThresholdsInForce
from sluice.controller.rules import NO_RULES
from sluice.controller.state import Change, Desired, Operation, Poll, PollQueues, ReadRules, SwitchState
from sluice.policy import tags
from sluice.policy.network.description import SeenHost
from sluice.policy.network.graph import INGRESS_GROUPS, TRUNKS
from sluice.policy.wire.agents import PortHeartbeat, TagCounters
from sluice.store.totals import ENTRIES_DECODED, LOOP_SECONDS, RULES_CHANGED, Tally

log = logging.getLogger(__name__)

OPERATION_LIMIT_NS = 5_000_000_000


class SwitchConnection(request.XidSource, Protocol):
    """A connection, as far as a session needs it."""

    def send(self, data: bytes) -> bool:
        """Queue bytes without blocking. Returns False if the connection has ended."""

    def hang_up(self) -> None:
        """End the connection without blocking."""


class Listener(Protocol):
    """Receives the results of a session."""

    def thresholds_in_force(self, state: SwitchState, news: list[ThresholdsInForce]) -> None: ...

    def queues_counted(self, state: SwitchState, counts: Mapping[int, counters.QueueCounts]) -> None: ...

    def hosts_seen(self, state: SwitchState, learned_rules: bytes) -> list[SeenHost]:
        """Return those of the hosts that the switch should forget."""

    def change_refused(self, state: SwitchState, error: str, subject: str) -> None: ...

    def mastership_lost(self, state: SwitchState) -> None: ...

    def may_act(self, now_ns: int) -> bool:
        """Whether the session may send requests now."""


@dataclass(frozen=True)
class BecomeMaster:
    """Make the switch take changes from this controller alone."""

    generation: int


@dataclass
class _Transaction:
    """The running operation."""

    operation: BecomeMaster | Operation
    began_ns: int
    steps: tuple[request.Request, ...]
    """Each is sent when the one before it has been answered."""
    answers: dict[StatsType, bytes] = field(default_factory=dict)
    error: str = ""
    committed: bool = False
    step: int = 0
    answered: bool = False
    """The current step has been answered, and the next one may be sent."""

    def subject_of(self, xid: int) -> str | None:
        """Describe the message with a transaction id; None if it is not of this operation."""
        subjects = (request.subject_of(xid) for request in self.steps)
        return next((subject for subject in subjects if subject is not None), None)


class Session:
    def __init__(
        self,
        connection: SwitchConnection,
        state: SwitchState,
        listener: Listener,
        generation: int,
        tally: Tally,
    ) -> None:
        """`generation` of the lease that this controller holds. `tally` is that of all switches."""
        self.connection, self.state, self._listener = connection, state, listener
        self._generation, self._is_master, self._tally = generation, False, tally
        self._loop_since_ns: int | None = None
        """When the counters were requested whose rules are not yet in force."""
        self.has_begun = False
        """Whether the session has sent a request."""
        self._transaction: _Transaction | None = None
        self._bundle_id = 0

    def is_alive(self, now_ns: int) -> bool:
        """Whether the switch is there. The session of a connection that has ended is gone."""
        return True

    @property
    def is_settling(self) -> bool:
        """Whether the first rules are being read or installed."""
        return self._transaction is not None and self.state.version is None

    def advance(self, now_ns: int) -> None:
        """Send the next request, if one is due and no operation runs."""
        if not self._listener.may_act(now_ns):
            return
        if (transaction := self._transaction) is not None:
            if transaction.answered:
                transaction.step, transaction.answered = transaction.step + 1, False
                self.connection.send(transaction.steps[transaction.step].data)
            return
        operation = self.state.next_operation(now_ns) if self._is_master else BecomeMaster(self._generation)
        if operation is not None:
            steps = self._requests(operation)
            self.has_begun = True
            self._transaction = _Transaction(operation, now_ns, steps)
            self.connection.send(steps[0].data)

    def check_time(self, at_ns: int) -> None:
        """Give up an operation whose time limit had passed at `at_ns` without an answer.

        `at_ns` is when the check was queued, not when it runs. An answer that has arrived in
        between waits behind it in the queue, and a busy controller must not blame the switch for
        that.
        """
        transaction = self._transaction
        if transaction is None or transaction.answered:
            return
        if at_ns - transaction.began_ns > OPERATION_LIMIT_NS:
            subject, limit_s = transaction.steps[transaction.step].subject(0), OPERATION_LIMIT_NS / 1e9
            self._give_up(f"no answer within {limit_s:.0f} s while {subject}")

    def _requests(self, operation: BecomeMaster | Operation) -> tuple[request.Request, ...]:
        first = self.state.first_table
        match operation:
            case BecomeMaster(generation):
                return (request.role_request(self.connection, request.Role.MASTER, generation),)
            case ReadRules():
                return (request.rules_request(self.connection),)
            case Change(changes):
                # No earlier session of the connection has used this number.
                self._bundle_id = self.connection.reserve_xids(1)
                log.debug("%s: %d changes", self.state.name, len(changes))
                if isinstance(changes, Remap):
                    return change.remap_requests(self.connection, changes, self._bundle_id, first)
                return change.change_requests(self.connection, changes, self._bundle_id, first)
            case PollQueues():
                return (request.queues_request(self.connection),)
            case Poll(table, tags_below):
                return (request.counters_request(self.connection, table, first, tags_below),)

    def _give_up(self, why: str) -> None:
        log.warning("%s: %s; closing the connection", self.state.name, why)
        self._transaction = None
        self.connection.hang_up()

    # ── Answers ─────────────────────────────────────────────────────────────────────────────────

    def take(self, now_ns: int, answer: answers.Answer) -> None:
        """Take an answer of the switch. The session ignores an answer to no running operation."""
        match answer:
            case answers.StatsReply():
                self._take_statistics(now_ns, answer)
            case answers.BarrierReply(xid):
                self._take_barrier(now_ns, xid)
            case answers.BundleReply(bundle_id, committed):
                if self._transaction is not None and committed and bundle_id == self._bundle_id:
                    self._transaction.committed = True
            case answers.RoleReply(xid, role):
                self._take_role(now_ns, xid, role)
            case answers.RoleStatus(role):
                if role == request.Role.SLAVE:
                    self._listener.mastership_lost(self.state)
            case answers.ErrorReply():
                self._take_error(now_ns, answer)

    def _take_role(self, now_ns: int, xid: int, role: int) -> None:
        transaction = self._transaction
        if transaction is None or transaction.subject_of(xid) is None:
            return
        if not isinstance(transaction.operation, BecomeMaster):
            return
        self._transaction = None
        self._is_master = role == request.Role.MASTER
        if self._is_master:
            self.advance(now_ns)
        else:
            self._give_up(f"the switch answers the request to become master with role {role}")

    # ── Statistics ──────────────────────────────────────────────────────────────────────────────

    def _take_statistics(self, now_ns: int, reply: answers.StatsReply) -> None:
        transaction = self._transaction
        if transaction is None or transaction.subject_of(reply.xid) is None:
            log.debug("%s: statistics of no request under way", self.state.name)
            return
        transaction.answers[reply.kind] = reply.body
        self._take_answers(now_ns, transaction)

    def _take_answers(self, now_ns: int, transaction: _Transaction) -> None:
        """End the operation if its answers are complete, and the connection if they are malformed."""
        try:
            if self._digest(transaction, now_ns):
                self._transaction = None
                self.advance(now_ns)
                if self._transaction is None or not isinstance(self._transaction.operation, Change):
                    self._end_loop(now_ns)
        except Exception as error:
            # The body is from the switch, and os-ken's parsers may raise anything on it. That is
            # the fault of this switch and must not end the controller.
            log.debug("unreadable statistics", exc_info=True)
            self._give_up(f"unreadable statistics ({error!r})")

    def _digest(self, transaction: _Transaction, now_ns: int) -> bool:
        """Pass the answer on if it is complete. Returns whether it is."""
        state = self.state
        match transaction.operation, transaction.answers:
            case ReadRules(), {
                StatsType.GROUP_DESC: groups,
                StatsType.METER_FEATURES: features,
                StatsType.METER_CONFIG: meters,
                StatsType.FLOW: flows,
            }:
                rules = read.read_rules(flows, groups, state.first_table, meters)
                state.rules_read(rules, has_meters=change.offers_meters(features))
            case states.CARRIED, {StatsType.FLOW: flows}:
                counts = counters.carried_counts(flows, state.port_numbers)
                self._tally.count(ENTRIES_DECODED, counts.entries)
                state.observe_carried(counts)
            case states.COMPLETED, {StatsType.FLOW: flows}:
                counts = counters.completed_counts(flows, state.port_numbers)
                self._tally.count(ENTRIES_DECODED, counts.entries)
                self._loop_since_ns = transaction.began_ns
                state.observe_completed(now_ns, counts)
            case PollQueues(), {StatsType.QUEUE: queues}:
                self._listener.queues_counted(state, counters.queue_counts(queues))
            case states.HOSTS, {StatsType.FLOW: flows}:
                for host in self._listener.hosts_seen(state, flows):
                    self.connection.send(change.forget_message(self.connection, host, state.first_table))
            case Poll() as poll, {StatsType.FLOW: flows}:
                self._tally.count(ENTRIES_DECODED, state.overlay.observe(now_ns, poll, flows))
            case _:
                return False
        return True

    def _end_loop(self, now_ns: int) -> None:
        """Measure the control loop, if one runs, because no rule is left to change."""
        if self._loop_since_ns is not None:
            self._tally.observe(LOOP_SECONDS, [(now_ns - self._loop_since_ns) / 1e9])
            self._loop_since_ns = None

    # ── Changes ─────────────────────────────────────────────────────────────────────────────────

    def _take_barrier(self, now_ns: int, xid: int) -> None:
        """The switch has executed everything before the barrier, and has reported its errors."""
        transaction = self._transaction
        if transaction is None or xid != transaction.steps[transaction.step].last_xid:
            return
        if not isinstance(transaction.operation, Change):
            return
        if transaction.error:
            self.connection.send(change.discard_message(self.connection, self._bundle_id))
            self._transaction = None
            self.state.refused(now_ns)
        elif transaction.step + 1 < len(transaction.steps):
            transaction.answered = True
            self.advance(now_ns)
        elif transaction.committed or transaction.operation.changes.bundled == 0:
            self._transaction = None
            self._tally.count(RULES_CHANGED, len(transaction.operation.changes))
            self._end_loop(now_ns)
            self._listener.thresholds_in_force(self.state, self.state.applied())
            self.advance(now_ns)
        else:
            self._give_up("the switch has neither committed nor refused a bundle")

    # ── Errors ──────────────────────────────────────────────────────────────────────────────────

    def _take_error(self, now_ns: int, error: answers.ErrorReply) -> None:
        """Fail the operation that the error message is about."""
        transaction = self._transaction
        subject = transaction.subject_of(error.xid) if transaction is not None else None
        if transaction is None or subject is None:
            log.debug("%s: error about no operation under way: %s", self.state.name, error.text)
        elif error.denies_mastership:
            self._listener.mastership_lost(self.state)
        elif subject == request.READING_METERS:
            transaction.answers |= {StatsType.METER_FEATURES: b"", StatsType.METER_CONFIG: b""}
            self._take_answers(now_ns, transaction)
        elif isinstance(transaction.operation, BecomeMaster):
            log.warning(
                "%s does not support roles (%s): another controller could also change its rules",
                self.state.name,
                error.text,
            )
            self._transaction, self._is_master = None, True
            self.advance(now_ns)
        else:
            if error.denies_meter:
                self.state.meter_refused()
            if not transaction.error:
                self._listener.change_refused(self.state, error.text, subject)
            transaction.error = error.text
            if not isinstance(transaction.operation, Change):
                self._give_up(f"error while {subject}: {error.text}")


# ── Switches that forward by themselves ─────────────────────────────────────────────────────────────


AWAY_NS = 10_000_000_000
"""An agent that has not reported for this long is away."""


LEAST_INTERVAL_MS, LEAST_WINDOW_MS = 1_000, 4_000
"""An agent reports each second, and a window needs some reports."""


def as_reported(desired: Desired) -> Desired:
    """Return what is desired of such a switch: the policy with an interval and a window that the reports can fill."""
    policy = desired.policy
    interval_ms = max(policy.interval_ms, LEAST_INTERVAL_MS)
    window_ms = max(policy.window_ms, LEAST_WINDOW_MS)
    return replace(desired, policy=replace(policy, interval_ms=interval_ms, window_ms=window_ms))


class AgentSession:
    """The session of a switch that forwards by itself: no controller is connected.

    The heartbeats of its port agent hold the counters. The queue maps reach the agent through the store, as the
    answers to heartbeats. So a change is in force as soon as the store has it, and at the ports with the agent's next
    heartbeat.
    """

    connection = None
    has_begun, is_settling = True, False

    def __init__(self, state: SwitchState, listener: Listener, now_ns: int) -> None:
        self.state, self._listener = state, listener
        self._reported: PortHeartbeat | None = None
        self._reported_ns = now_ns - AWAY_NS
        self._is_new = False
        """Whether the counters have not been observed yet."""
        state.connected(now_ns)

    def is_alive(self, now_ns: int) -> bool:
        """Whether the agent reports."""
        return now_ns - self._reported_ns < AWAY_NS

    def check_time(self, at_ns: int) -> None:
        """No operation waits for an answer."""

    def take(self, now_ns: int, beat: PortHeartbeat) -> None:
        """Take the agent's newest heartbeat. One that has come before says nothing new."""
        before = self._reported
        if before is not None and (before.pid, before.at) == (beat.pid, beat.at):
            return
        if before is not None and before.pid != beat.pid:
            self.state.connected(now_ns)  # the counters of another process begin at zero
        self._reported, self._reported_ns, self._is_new = beat, now_ns, True
        numbers = {self.state.port_id(number): number for number in self.state.port_numbers.tolist()}
        counts = {
            numbers[port]: counters.QueueCounts(
                tuple(q.bytes for q in queues), tuple(q.packets for q in queues)
            )
            for port, queues in beat.ports.items()
            if port in numbers
        }
        self._listener.queues_counted(self.state, counts)

    def advance(self, now_ns: int) -> None:
        """Do what is due, as far as the agent's counters reach."""
        if not self._listener.may_act(now_ns):
            return
        while (operation := self.state.next_operation(now_ns)) is not None:
            match operation:
                case ReadRules():
                    self.state.rules_read(NO_RULES, has_meters=False)
                case Change():
                    self._listener.thresholds_in_force(self.state, self.state.applied())
                case states.CARRIED | states.COMPLETED if not self._is_new:
                    return
                case states.CARRIED:
                    self.state.observe_carried(self._counted(carried=True))
                case states.COMPLETED:
                    self._is_new = False
                    self.state.observe_completed(now_ns, self._counted(carried=False))

    def _counted(self, *, carried: bool) -> counters.CounterReply:
        """Return packets and bytes by tag, or completed flows by bucket. No rule knows from where they have come."""
        assert self._reported is not None
        rows: list[Sequence[TagCounters] | None] = [
            self._reported.tags.get(str(self.state.port_id(number)))
            for number in self.state.port_numbers.tolist()
        ]
        shape = (2, tags.TAG_COUNT) if carried else (INGRESS_GROUPS, tags.ATTAINED_BUCKETS)
        values = np.zeros((len(rows), *shape), np.int64)
        for row, counted in enumerate(rows):
            for of in counted or ():
                bucket = of.dscp - tags.ATTAINED_FIRST
                if carried and of.dscp < tags.TAG_COUNT:
                    values[row, :, of.dscp] = of.packets, of.bytes
                elif not carried and 0 <= bucket < tags.ATTAINED_BUCKETS:
                    values[row, TRUNKS, bucket] = of.ends
        reported = np.asarray([counted is not None for counted in rows], bool)
        return counters.CounterReply(values, reported, int(reported.sum()))
