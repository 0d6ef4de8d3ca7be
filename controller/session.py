# SPDX-License-Identifier: Apache-2.0
"""One switch's conversation: turns the operations of `state.py` into requests and the answers into facts for it.

At most one operation is under way. It ends with its answer, with an error, or with its time limit, which ends the
connection: a switch that answers echo requests but not these is not to be trusted with the next ones.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from controller import openflow
from controller.openflow import QueueCounters, Request
from controller.state import (
    Change,
    Operation,
    PollCarried,
    PollCompleted,
    PollQueues,
    ReadRules,
    SwitchState,
    ThresholdsInForce,
)
from controller.wire import STATS_FLOW, STATS_GROUP_DESC, STATS_QUEUE

log = logging.getLogger(__name__)

OPERATION_LIMIT_NS = 5_000_000_000


class Listener(Protocol):
    """Who is told what has come out of the conversation."""

    def thresholds_in_force(self, state: SwitchState, news: list[ThresholdsInForce]) -> None: ...

    def queues_counted(self, state: SwitchState, counters: Mapping[int, QueueCounters]) -> None: ...

    def refused(self, state: SwitchState, error: str, subject: str) -> None: ...


@dataclass
class _UnderWay:
    operation: Operation
    began_ns: int
    steps: tuple[Request, ...]
    """Each is sent when the one before it has been answered."""
    answers: dict[int, bytes]
    """Whole statistics bodies by transaction id."""
    error: str = ""
    committed: bool = False
    step: int = 0

    def about(self, xid: int) -> str | None:
        """What a transaction id was about; None when it is not of this operation."""
        return next((request.subjects[xid] for request in self.steps if xid in request.subjects), None)


class Session:
    def __init__(self, datapath: Any, state: SwitchState, listener: Listener) -> None:
        self.datapath, self.state, self._listener = datapath, state, listener
        self._under_way: _UnderWay | None = None
        self._bundle_id = 0

    def advance(self, now_ns: int) -> None:
        """Begin what is due, when nothing is under way."""
        if self._under_way is not None:
            if now_ns - self._under_way.began_ns > OPERATION_LIMIT_NS:
                self._give_up(f"no answer to {type(self._under_way.operation).__name__} in time")
            return
        operation = self.state.next_operation(now_ns)
        if operation is not None:
            self._begin(operation, now_ns)

    def _begin(self, operation: Operation, now_ns: int) -> None:
        steps = self._steps(operation)
        self._under_way = _UnderWay(operation, now_ns, steps, {})
        self.datapath.send(steps[0].data)

    def _steps(self, operation: Operation) -> tuple[Request, ...]:
        match operation:
            case ReadRules():
                return (openflow.read_request(self.datapath),)
            case Change(changes):
                self._bundle_id = self._bundle_id % 0xFFFFFFFF + 1
                log.debug("%s: %d changes", self.state.name, len(changes))
                return openflow.change_requests(self.datapath, changes, self._bundle_id)
            case PollCarried():
                return (openflow.carried_request(self.datapath),)
            case PollCompleted():
                return (openflow.completed_request(self.datapath),)
            case PollQueues():
                return (openflow.queues_request(self.datapath),)

    def _give_up(self, why: str) -> None:
        log.warning("%s: %s; closing the connection", self.state.name, why)
        self._under_way = None
        self.datapath.hang_up()

    # ── Answers ────────────────────────────────────────────────────────────────────────────────────────────────────

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
                self.state.carried(openflow.carried_counts(flows))
            case PollCompleted(), {1: flows}:
                self._under_way = None
                self.state.counted(now_ns, openflow.completed_counts(flows))
            case PollQueues(), {5: queues}:
                self._under_way = None
                self._listener.queues_counted(self.state, openflow.queue_counts(queues))
            case _:
                return
        self.advance(now_ns)

    def bundle_committed(self) -> None:
        if self._under_way is not None:
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
            doing.step += 1
            self.datapath.send(doing.steps[doing.step].data)
        elif doing.committed or len(doing.operation.changes) == 0:
            self._under_way = None
            self._listener.thresholds_in_force(self.state, self.state.applied())
            self.advance(now_ns)
        else:
            self._give_up("a bundle was neither committed nor refused")

    def _refused(self, now_ns: int) -> None:
        self.datapath.send(openflow.discard_message(self.datapath, self._bundle_id))
        self._under_way = None
        self.state.refused(now_ns)

    def error(self, xid: int, text: str) -> None:
        """An OpenFlow error message; fails the operation that it belongs to, which says so once."""
        doing = self._under_way
        subject = doing.about(xid) if doing is not None else None
        if doing is None or subject is None:
            log.debug("%s: error that nobody waits for: %s", self.state.name, text)
            return
        if not doing.error:
            self._listener.refused(self.state, text, subject)
        doing.error = text
        if not isinstance(doing.operation, Change):
            self._give_up(f"error while {subject}: {text}")


assert (STATS_GROUP_DESC, STATS_FLOW, STATS_QUEUE) == (7, 1, 5), "the patterns of Session._digest"
