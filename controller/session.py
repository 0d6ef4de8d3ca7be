# SPDX-License-Identifier: Apache-2.0
"""One switch's conversation: turns the operations of `state.py` into requests and the answers into facts for it.

First the controller becomes the switch's master, for a generation of the lease (controller/leadership.py): until the
switch has said so, nothing else is asked of it. At most one operation is under way. It ends with its answer, with an
error, or with its time limit, which ends the connection: a switch that answers echo requests but not these is not to be
trusted with the next ones.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from controller.changes import Changes, Remap
from controller.metrics import ControllerMetrics, SwitchMetrics
from controller.openflow import change as openflow
from controller.openflow.change import QueueCounters, Request, Role
from controller.openflow.frames import STATS_FLOW, STATS_GROUP_DESC, STATS_QUEUE, entry_count
from controller.policing import Verdict
from controller.state import (
    Change,
    Operation,
    PollCarried,
    PollCompleted,
    PollIngress,
    PollQueues,
    PollWitness,
    ReadRules,
    SwitchState,
    ThresholdsInForce,
)

log = logging.getLogger(__name__)

OPERATION_LIMIT_NS = 5_000_000_000


@dataclass(frozen=True)
class BecomeMaster:
    """Have the switch take orders from this controller alone."""

    generation: int


class Listener(Protocol):
    """Who is told what has come out of the conversation."""

    def thresholds_in_force(self, state: SwitchState, news: list[ThresholdsInForce]) -> None: ...

    def queues_counted(self, state: SwitchState, counters: Mapping[int, QueueCounters]) -> None: ...

    def judged(self, state: SwitchState, verdicts: list[Verdict]) -> None: ...

    def refused(self, state: SwitchState, error: str, subject: str) -> None: ...

    def another_is_master(self, state: SwitchState) -> None: ...

    def may_act(self, now_ns: int) -> bool:
        """Whether orders may be given now."""


Doing: TypeAlias = BecomeMaster | Operation


@dataclass
class _UnderWay:
    operation: Doing
    began_ns: int
    steps: tuple[Request, ...]
    """Each is sent when the one before it has been answered."""
    answers: dict[int, bytes]
    """Whole statistics bodies by transaction id."""
    error: str = ""
    committed: bool = False
    step: int = 0
    answered: bool = False
    """The step has been answered; the next one may be sent."""

    def about(self, xid: int) -> str | None:
        """What a transaction id was about; None when it is not of this operation."""
        return next((about for request in self.steps if (about := request.about(xid)) is not None), None)


class Session:
    def __init__(
        self,
        datapath: Any,
        state: SwitchState,
        listener: Listener,
        generation: int,
        metrics: SwitchMetrics | None = None,
    ) -> None:
        """`generation` of the lease that this controller holds."""
        self._metrics = metrics or SwitchMetrics(ControllerMetrics())
        self.datapath, self.state, self._listener = datapath, state, listener
        self._generation, self._is_master = generation, False
        self.has_begun = False
        """Something has been asked of the switch."""
        self._under_way: _UnderWay | None = None
        self._bundle_id = 0

    @property
    def is_settling(self) -> bool:
        """The switch is on its way to the first rules that are known to be right."""
        return self._under_way is not None and self.state.version is None

    def advance(self, now_ns: int) -> None:
        """Begin what is due, when nothing is under way."""
        if not self._listener.may_act(now_ns):
            return
        doing = self._under_way
        if doing is not None:
            if doing.answered:
                self._next_step(doing)
            return
        operation = self.state.next_operation(now_ns) if self._is_master else BecomeMaster(self._generation)
        if operation is not None:
            self._begin(operation, now_ns)

    def check_time(self, at_ns: int) -> None:
        """Give up on what had not been answered at that time, and has had its time.

        `at_ns` is when the question was put, not when there was leisure for it: an answer that has come since then
        waits behind it, and a busy controller must not take its own slowness for the switch's.
        """
        doing = self._under_way
        if doing is not None and not doing.answered and at_ns - doing.began_ns > OPERATION_LIMIT_NS:
            self._give_up(f"no answer to {type(doing.operation).__name__} in time")

    def _begin(self, operation: Doing, now_ns: int) -> None:
        steps = self._steps(operation)
        self.has_begun = True
        self._under_way = _UnderWay(operation, now_ns, steps, {})
        self.datapath.send(steps[0].data)

    def _steps(self, operation: Doing) -> tuple[Request, ...]:
        match operation:
            case BecomeMaster(generation):
                return (openflow.role_request(self.datapath, Role.MASTER, generation),)
            case ReadRules():
                return (openflow.read_request(self.datapath),)
            case Change(changes):
                return self._change_steps(changes)
            case PollCarried():
                return (openflow.carried_request(self.datapath),)
            case PollCompleted():
                return (openflow.completed_request(self.datapath),)
            case PollQueues():
                return (openflow.queues_request(self.datapath),)
            case PollIngress(all_tags):
                return (openflow.ingress_request(self.datapath, all_tags=all_tags),)
            case PollWitness():
                return (openflow.witness_request(self.datapath),)

    def _change_steps(self, changes: Changes | Remap) -> tuple[Request, ...]:
        self._bundle_id = self._bundle_id % 0xFFFFFFFF + 1
        log.debug("%s: %d changes", self.state.name, len(changes))
        if isinstance(changes, Remap):
            return openflow.remap_requests(self.datapath, changes, self._bundle_id)
        return openflow.change_requests(self.datapath, changes, self._bundle_id)

    def _give_up(self, why: str) -> None:
        log.warning("%s: %s; closing the connection", self.state.name, why)
        self._under_way = None
        self.datapath.hang_up()

    # ── Answers ────────────────────────────────────────────────────────────────────────────────────────────────────

    def role(self, now_ns: int, xid: int, role: int) -> None:
        """The switch has said what it takes this controller for."""
        doing = self._under_way
        if doing is None or doing.about(xid) is None or not isinstance(doing.operation, BecomeMaster):
            return
        self._under_way = None
        self._is_master = role == Role.MASTER
        if not self._is_master:
            self._give_up(f"asked to take orders, it says role {role}")
            return
        self.advance(now_ns)

    def stats(self, now_ns: int, xid: int, kind: int, body: bytes) -> None:
        """A whole statistics reply."""
        doing = self._under_way
        if doing is None or doing.about(xid) is None:
            log.debug("%s: statistics that nobody waits for", self.state.name)
            return
        doing.answers[kind] = body
        try:
            self._digest(doing, now_ns)
        except Exception as error:
            # The body is the switch's: whatever os-ken's parsers stumble over in it is that switch's fault alone.
            log.debug("unreadable statistics", exc_info=True)
            self._give_up(f"unreadable statistics ({error!r})")

    def _digest(self, doing: _UnderWay, now_ns: int) -> None:
        """Pass the answer on once it is complete."""
        match doing.operation, doing.answers:
            case ReadRules(), {7: groups, 1: flows}:
                self._under_way = None
                self.state.rules_read(openflow.read_rules(flows, groups))
            case PollCarried(), {1: flows}:
                self._under_way = None
                self._metrics.decoded(entry_count(flows))
                self.state.carried(openflow.carried_counts(flows, self.state.numbers))
            case PollCompleted(), {1: flows}:
                self._under_way = None
                self._metrics.decoded(entry_count(flows))
                self._metrics.counters_in(doing.began_ns)
                self.state.counted(now_ns, openflow.completed_counts(flows, self.state.numbers))
            case PollQueues(), {5: queues}:
                self._under_way = None
                self._listener.queues_counted(self.state, openflow.queue_counts(queues))
            case PollIngress(all_tags), {1: flows}:
                self._under_way = None
                self._metrics.decoded(entry_count(flows))
                counted = openflow.carried_counts(flows, self.state.edge_numbers)
                self.state.ingress(now_ns, counted, all_tags=all_tags)
            case PollWitness(), {1: flows}:
                self._under_way = None
                self._metrics.decoded(entry_count(flows))
                self.state.witnessed(now_ns, openflow.witnessed(flows))
            case _:
                return
        if verdicts := self.state.verdicts():
            self._listener.judged(self.state, verdicts)
        self.advance(now_ns)
        if self._under_way is None or not isinstance(self._under_way.operation, Change):
            self._metrics.stands(now_ns)

    def bundle_answered(self, message: Any) -> None:
        """The switch's answer to an order about a bundle."""
        if self._under_way is not None and openflow.commits(message, self._bundle_id):
            self._under_way.committed = True

    def barrier(self, now_ns: int, xid: int) -> None:
        """The switch has done everything before the barrier, and has said what it refused."""
        doing = self._under_way
        if (
            doing is None
            or xid != doing.steps[doing.step].last_xid
            or not isinstance(doing.operation, Change)
        ):
            return
        if doing.error:
            self._refused(now_ns)
        elif doing.step + 1 < len(doing.steps):
            doing.answered = True
            self.advance(now_ns)
        elif doing.committed or len(doing.operation.changes) == 0:
            self._under_way = None
            self._metrics.rules_changed(len(doing.operation.changes))
            self._metrics.stands(now_ns)
            self._listener.thresholds_in_force(self.state, self.state.applied())
            self.advance(now_ns)
        else:
            self._give_up("a bundle was neither committed nor refused")

    def _next_step(self, doing: _UnderWay) -> None:
        doing.step, doing.answered = doing.step + 1, False
        self.datapath.send(doing.steps[doing.step].data)

    def _refused(self, now_ns: int) -> None:
        self.datapath.send(openflow.discard_message(self.datapath, self._bundle_id))
        self._under_way = None
        self.state.refused(now_ns)

    def error(self, now_ns: int, message: Any) -> None:
        """An OpenFlow error message; fails the operation that it belongs to, which says so once."""
        doing, text = self._under_way, openflow.error_text(message)
        subject = doing.about(message.xid) if doing is not None else None
        if doing is None or subject is None:
            log.debug("%s: error that nobody waits for: %s", self.state.name, text)
        elif openflow.another_is_master(message):
            self._listener.another_is_master(self.state)
        elif isinstance(doing.operation, BecomeMaster):
            log.warning(
                "%s knows no roles (%s): another controller could write to it, too", self.state.name, text
            )
            self._under_way, self._is_master = None, True
            self.advance(now_ns)
        else:
            self._failed(doing, text, subject)

    def _failed(self, doing: _UnderWay, text: str, subject: str) -> None:
        if not doing.error:
            self._listener.refused(self.state, text, subject)
        doing.error = text
        if not isinstance(doing.operation, Change):
            self._give_up(f"error while {subject}: {text}")


assert (STATS_GROUP_DESC, STATS_FLOW, STATS_QUEUE) == (7, 1, 5), "the patterns of Session._digest"
