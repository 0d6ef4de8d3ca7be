# SPDX-License-Identifier: Apache-2.0
"""Two real controllers, a real store and a switch, moved step by step as a trace of tests/model/Mastership.tla says.

The lease, the application, its sessions and the recorder are the code itself. No thread of theirs runs: each step calls
what the thread would call. The switch takes roles and bundles as OpenFlow 1.3.5, section 6.3.6, says.
"""

import struct
import time
from collections import deque
from typing import Any, cast

import pytest
from sqlalchemy import Engine

from sluice.controller.app import Controller, Order
from sluice.controller.connection import Connection, EventAnswer
from sluice.controller.leadership import LEASE_S, RETAKE_S, Candidacy, LeaseStatus
from sluice.controller.openflow import answers
from sluice.controller.openflow.answers import Answer, BarrierReply
from sluice.controller.openflow.frames import Frame, MessageType, StatsType
from sluice.controller.recorder import Term, Write
from sluice.controller.session import Session
from sluice.controller.state import Change
from sluice.policy.schema.desired import Policy
from sluice.store import desired, lease
from sluice.store.observed import put_switch
from tests.fakes.openflow import Xids, frames

DPID = 1
ROLES = {"equal": 1, "master": 2, "slave": 3}
LATER_NS = 10**18
"""The lease was looked at a moment ago, however slow the machine is."""


class Link(Xids):
    """A connection. Polls are answered at once; roles and commits wait for the step that handles them."""

    host = place = peer = "test"
    described = None
    heard_at_s = 0.0
    id = DPID

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self.role = "equal"
        self.down: deque[tuple[str, int, Frame, int]] = deque()
        """Kind, generation, message and policy version of each request that waits."""
        self.up: deque[list[Answer]] = deque()
        self.at_once: deque[Answer] = deque()

    def send(self, data: bytes) -> bool:
        messages = frames(data)
        last = messages[-1]
        match last.kind:
            case MessageType.ROLE_REQUEST:
                role, generation = struct.unpack_from("!IxxxxQ", last.data, 8)
                kind = next(name for name, number in ROLES.items() if number == role)
                self.down.append((kind, generation, last, 0))
            case MessageType.MULTIPART_REQUEST:
                for each in messages:
                    kind_of = StatsType(struct.unpack_from("!H", each.data, 8)[0])
                    self.at_once.append(answers.StatsReply(each.xid, kind_of, b""))
            case MessageType.BARRIER_REQUEST:
                self._take_bundle(last)
            case _:
                raise AssertionError(f"the switch gets a message of type {last.kind}")
        return True

    def _take_bundle(self, barrier: Frame) -> None:
        session = self._controller._led.sessions[DPID]
        assert isinstance(session, Session)
        assert session._transaction is not None
        if session._transaction.step + 1 < len(session._transaction.steps):
            self.at_once.append(BarrierReply(barrier.xid))
        else:
            version = session.state._settings._changing_version
            self.down.append(("commit", session._generation, barrier, version))

    def hang_up(self) -> None:
        raise AssertionError("the controller ends the connection")

    def probe(self) -> None:
        raise AssertionError("two connections of one switch")


class Candidate:
    """One controller."""

    def __init__(self, name: str, engine: Engine) -> None:
        self.engine, self.clock_s = engine, 0.0
        self.app = Controller("sqlite://")
        self.app.leadership._candidacy = self._candidacy = Candidacy(name, ended=lambda _: False)
        self.app.recorder._engine = engine
        self.inbox: deque[Order] = deque()
        self.app._enqueue = self.inbox.append  # type: ignore[assignment, method-assign]
        self.reports: deque[LeaseStatus] = deque()
        self.told = (False, 0)
        self.groups: deque[int] = deque()
        """For each step that had rows of the switch recorded: how many."""
        self._counted = 0
        self.link = self._connect()

    def heard(self) -> tuple[bool, int]:
        """Return whether the application leads the switch, and in which generation anybody does."""
        return self._of_switch(self.app._led.lease)

    def _of_switch(self, status: LeaseStatus | None) -> tuple[bool, int]:
        return (status.leads, status.generation) if status is not None else (False, 0)

    def wanted(self) -> int:
        """Return the policy version that the application wants at the switch."""
        return self.app._led.desired.version if self.app._led.desired is not None else 0

    def term(self) -> Term | None:
        term = self.app.recorder._term
        return None if term.ended else term

    def _connect(self) -> Link:
        link = Link(self.app)
        self.app._carry_out(self.app._connections.connected(DPID, cast(Connection, link), 0.0))
        return link

    # ── Steps ───────────────────────────────────────────────────────────────────────────────────

    def look(self, later_s: float) -> None:
        self.clock_s += later_s
        mine = self._candidacy
        mine.step(self.engine, self.clock_s)
        status = LeaseStatus(mine.leads, mine.generation, time.monotonic_ns() + LATER_NS)
        if self._of_switch(status) != self.told:
            self.told = self._of_switch(status)
            self.reports.append(status)

    def take(self) -> None:
        self.look(LEASE_S + 0.1)

    def retake(self) -> None:
        self._candidacy.is_disputed = True
        self.look(RETAKE_S + 0.1)

    def hear(self) -> None:
        self.app.take_lease_status(self.reports.popleft())

    def read(self) -> None:
        term = self.term()
        assert term is not None
        self.app.recorder._poll(self.engine, term.generation)

    def delivered(self) -> None:
        while self.inbox:
            self.inbox.popleft().carry_out()
        self.advance()

    def receive(self) -> None:
        for answer in self.link.up.popleft():
            self._answer(answer)
        self.advance()

    def reconnect(self) -> None:
        self.app._carry_out(self.app._connections.ended(DPID, cast(Connection, self.link)))
        self.link = self._connect()
        self.advance()

    def write(self) -> None:
        """Write the rows of the oldest step that had any."""
        count, recorder = self.groups.popleft(), self.app.recorder
        rows = list(recorder._waiting)
        places = [place for place, item in enumerate(rows) if self._is_of_switch(item)]
        end = places[count - 1] + 1
        recorder._waiting = deque(rows[:end])
        recorder._write(self.engine)
        recorder._waiting = deque(rows[end:])
        self._counted -= count

    # ── Between the steps ───────────────────────────────────────────────────────────────────────

    def advance(self) -> None:
        now_ns = time.monotonic_ns()
        self.app._led.advance(now_ns, now_ns)
        while self.link.at_once:
            self._answer(self.link.at_once.popleft())

    def _answer(self, answer: Answer) -> None:
        self.app.on_answer(EventAnswer(cast(Connection, self.link), answer))

    def count_rows(self) -> None:
        """Note how many rows of the switch the step had recorded, and drop those of an ended term."""
        recorder = self.app.recorder
        recorder._receive(0.0)
        live = [item for item in recorder._waiting if not item.term.ended]
        recorder._waiting = deque(item for item in recorder._waiting if item.term.ended)
        recorder._write(self.engine)  # writes none of these
        recorder._waiting = deque(live)
        count = sum(map(self._is_of_switch, live))
        if not live:
            self.groups.clear()
            self._counted = 0
        if count > self._counted:
            self.groups.append(count - self._counted)
        self._counted = count

    @staticmethod
    def _is_of_switch(item: Write) -> bool:
        return item.function is put_switch

    def check_that_the_store_refuses(self) -> None:
        """Try to write the oldest rows while the lease has another generation than the term."""
        before = list(self.app.recorder._waiting)
        with pytest.raises(lease.Deposed):
            self.app.recorder._write(self.engine)
        assert list(self.app.recorder._waiting) == before

    def session(self) -> dict[str, Any]:
        session = self.app._led.sessions.get(DPID)
        if not isinstance(session, Session):
            return {"state": "none", "known": 0}
        running = session._transaction
        changes = running is not None and isinstance(running.operation, Change)
        state = "asked" if not session._is_master else "changing" if changes else "master"
        return {"state": state, "known": session.state.version or 0}


class World:
    """The store, the switch and both controllers."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.version = engine, 1
        self.candidates = {name: Candidate(name, engine) for name in "ab"}
        self.seen = self.rules = self.writer = self.row_generation = self._base = 0

    def step(self, action: str, who: str) -> None:
        candidate = self.candidates.get(who)
        if candidate is None:
            self.operate()
            return
        match action:
            case "See":
                candidate.look(0.001)
            case "Handle":
                self.handle(candidate)
            case _:
                getattr(candidate, action.lower())()
        candidate.count_rows()

    def operate(self) -> None:
        self.version = desired.put_policy(self.engine, policy(self.version + 1), "test")

    def handle(self, candidate: Candidate) -> None:
        """The switch takes the next message of a connection."""
        link = candidate.link
        kind, generation, request, version = link.down.popleft()
        if kind != "commit" and generation >= self.seen:
            self.seen = generation
            if kind == "master":
                self._depose(candidate)
                link.up.append([answers.RoleReply(request.xid, ROLES["master"])])
            link.role = kind
        elif kind == "commit" and link.role != "slave":
            self.rules, self.writer = version, generation
            session = candidate.app._led.sessions.get(DPID)
            bundle = session._bundle_id if isinstance(session, Session) else 0
            link.up.append([answers.BundleReply(bundle, committed=True), BarrierReply(request.xid)])
        elif kind != "slave":
            link.up.append([answers.ErrorReply(request.xid, "not the master", denies_mastership=True)])

    def _depose(self, by: Candidate) -> None:
        for other in self.candidates.values():
            if other is not by and other.link.role == "master":
                other.link.role = "slave"
                other.link.up.append([answers.RoleStatus(ROLES["slave"])])

    def state(self) -> dict[str, Any]:
        """Return the variables of the model, as far as traces have them."""
        with self.engine.connect() as connection:
            row = connection.exec_driver_sql("SELECT * FROM leases").first()
            reported = connection.exec_driver_sql("SELECT policy_version FROM switches").scalar()
        self.row_generation = row.generation if row else 0
        if row is not None and not self._base:
            self._base = row.generation - 1
        each = self.candidates.items()
        heard = {name: c.heard() for name, c in each}
        return {
            "row": {
                "holder": row.holder if row else "nobody",
                "generation": self._small(row.generation if row else 0),
            },
            "app": {n: {"leads": leads, "generation": self._small(g)} for n, (leads, g) in heard.items()},
            "desired": {n: c.wanted() for n, c in each},
            "session": {n: c.session() for n, c in each},
            "down": {n: [kind for kind, *_ in c.link.down] for n, c in each},
            "up": {n: len(c.link.up) for n, c in each},
            "role": {n: c.link.role for n, c in each},
            "seen": self._small(self.seen),
            "rules": self.rules,
            "writer": self._small(self.writer),
            "waiting": {n: len(c.groups) for n, c in each},
            "reported": reported or 0,
            "version": self.version,
        }

    def _small(self, generation: int) -> int:
        """Count generations from 1, as the model does."""
        return generation and generation - self._base


def policy(version: int) -> Policy:
    """Every version has rules of its own."""
    return Policy.from_document({"scheme": "pias", "queues": 2, "thresholds": [f"{10 * version}KB"]})
