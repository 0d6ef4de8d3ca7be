# SPDX-License-Identifier: Apache-2.0
"""The os-ken application: events in, one session for each switch of the topology, rows for the store out.

Lock discipline: there are no locks, because there is one owner. Everything in this file, every session and every
state belongs to the application's event-loop thread. The other threads (each connection's reader, the clock, the
store) only put events into its queue; what it tells them goes through their queues. So no handler waits, and none may:
it neither reads a socket nor the store.

Of several controllers on one store one leads (leadership.py). The others stay connected as slaves of every switch, have
no session, and write nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from itertools import islice
from typing import Any

from os_ken.controller import event, ofp_event
from os_ken.controller.handler import (
    CONFIG_DISPATCHER,
    DEAD_DISPATCHER,
    HANDSHAKE_DISPATCHER,
    MAIN_DISPATCHER,
    set_ev_cls,
)

from controller.connection import Connection, DaemonLoop, EventRole, EventStatsReply
from controller.connection_table import PROBE_S, Contest
from controller.leadership import Leadership, Standing
from controller.metrics import ControllerMetrics, SwitchMetrics
from controller.openflow import change as openflow
from controller.openflow.change import QueueCounters, Role
from controller.policing import Restored, Verdict
from controller.recorder import Recorder
from controller.session import Session
from controller.state import Desired, SwitchState, ThresholdsInForce
from policy.sanctions import Demoted
from store import desired as desired_rows
from store import observed, sanctions
from store.observed import PortSample, ThresholdChange
from store.sanctions import Sanction
from store.totals import add_counts

log = logging.getLogger(__name__)

TICK_S = 0.01
PRESENCE_EVERY_NS = 2_000_000_000
"""Say this often that a switch is connected, so that readers can tell a dead controller's rows from a live one's."""
MOST_SETTLING = 8
"""Switches whose rules are read and put right at once; the others go on with the rules that they have."""
SAY_AGAIN_S = 60.0
"""Between two events about the same two switches with one datapath id."""


class EventTick(event.EventBase):  # type: ignore[misc]
    """Time has passed: it was `at_ns` when this was put into the queue."""

    def __init__(self) -> None:
        super().__init__()
        self.at_ns = time.monotonic_ns()


class EventStanding(event.EventBase):  # type: ignore[misc]
    """Whether this controller leads."""

    def __init__(self, standing: Standing) -> None:
        super().__init__()
        self.standing = standing


class EventDesired(event.EventBase):  # type: ignore[misc]
    """The store wants something else."""

    def __init__(self, desired: Desired) -> None:
        super().__init__()
        self.desired = desired


class Controller(DaemonLoop):
    """Keeps every switch of the topology at the desired policy."""

    OFP_VERSIONS = [openflow.OFP_VERSION]  # noqa: RUF012 (os-ken's interface)
    LOGGER_NAME = __name__

    def __init__(self, store_url: str) -> None:
        super().__init__()
        self.recorder = Recorder(store_url, lambda desired: self._send_event(EventDesired(desired), None))
        self.leadership = Leadership(
            store_url, lambda standing: self._send_event(EventStanding(standing), None)
        )
        self._standing: Standing | None = None
        self._desired: Desired | None = None
        """None while another controller leads."""
        self._states: dict[int, SwitchState] = {}
        self._connections: dict[int, Connection] = {}
        """The live connection of each datapath id, known or not."""
        self._contests: dict[int, Contest[Connection]] = {}
        """Two connections that say that they are the same switch."""
        self._said_at: dict[tuple[int, str], float] = {}
        self._sessions: dict[int, Session] = {}
        self._metrics = ControllerMetrics()
        self._dpids: dict[str, int] = {}
        self._recorded_version: dict[int, int | None] = {}
        self._applied_version = 0
        self._presence_due_ns = 0
        self._tick_waiting = threading.Event()
        self._stopped = threading.Event()

    # ── Life ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        super().start()
        self.recorder.start()
        self.leadership.start()
        threading.Thread(target=self._clock, name="clock", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        super().stop()

    def _clock(self) -> None:
        """At most one tick waits in the queue, however busy the loop is."""
        while not self._stopped.wait(TICK_S):
            if not self._tick_waiting.is_set():
                self._tick_waiting.set()
                self._send_event(EventTick(), None)

    @set_ev_cls(EventTick)  # type: ignore[untyped-decorator]
    def on_tick(self, tick: EventTick) -> None:
        self._tick_waiting.clear()
        now_ns = time.monotonic_ns()
        self._settle_contests(now_ns / 1e9)
        if not self.may_act(now_ns):
            return
        self._advance_sessions(now_ns, tick.at_ns)
        if now_ns >= self._presence_due_ns:
            self._presence_due_ns = now_ns + PRESENCE_EVERY_NS
            for dpid in self._sessions:
                self._record_switch(dpid, connected=True)
            self.recorder.record(add_counts, self._metrics.tally.take())

    def _advance_sessions(self, now_ns: int, at_ns: int) -> None:
        """All that have begun, and of the others so many that few are reading and installing all rules at once.

        A network that connects at one moment would else wait for one controller's leisure beyond the time limits.
        """
        begun = [session for session in self._sessions.values() if session.has_begun]
        room = MOST_SETTLING - sum(session.is_settling for session in begun)
        waiting = (session for session in self._sessions.values() if not session.has_begun)
        for session in [*begun, *islice(waiting, max(0, room))]:
            session.check_time(at_ns)
            session.advance(now_ns)

    # ── Leading and following ──────────────────────────────────────────────────────────────────────────────────────

    def may_act(self, now_ns: int) -> bool:
        """Whether this controller leads, as far as it has looked just now."""
        return self._standing is not None and self._standing.leads and self._standing.is_fresh(now_ns)

    @set_ev_cls(EventStanding)  # type: ignore[untyped-decorator]
    def on_standing(self, occurrence: EventStanding) -> None:
        before, self._standing = self._standing, occurrence.standing
        now = self._standing
        if now.leads and (before is None or not before.leads or before.generation != now.generation):
            self._lead(now)
        elif not now.leads and (before is None or before.leads or before.generation != now.generation):
            self._follow(now)

    def _lead(self, standing: Standing) -> None:
        log.info("leading, generation %d", standing.generation)
        self._forget()
        self.recorder.lead()
        self._record_event("leading", generation=standing.generation)

    def _follow(self, standing: Standing) -> None:
        log.info("following: another controller leads, generation %d", standing.generation)
        self._forget()
        self.recorder.follow()
        for datapath in self._connections.values():
            self._be_slave(datapath)

    def _forget(self) -> None:
        """What is desired is delivered anew to who begins to lead."""
        self._desired = None
        self._states.clear()
        self._sessions.clear()
        self._applied_version = 0

    def _be_slave(self, datapath: Connection) -> None:
        if self._standing is not None and not self._standing.leads:
            asked = openflow.role_request(datapath, Role.SLAVE, self._standing.generation)
            datapath.send(asked.data)

    @set_ev_cls(EventRole)  # type: ignore[untyped-decorator]
    def on_role(self, occurrence: EventRole) -> None:
        session = self._session_of(occurrence.datapath)
        if session is None:
            return
        if occurrence.xid is not None:
            session.role(time.monotonic_ns(), occurrence.xid, occurrence.role)
        elif occurrence.role == Role.SLAVE:
            self.another_is_master(session.state)

    def another_is_master(self, state: SwitchState) -> None:
        """The lease will tell whether that is so; until then, nothing is asked of the switch."""
        log.warning("%s says that another controller is its master", state.name)
        self._sessions.pop(self._dpid_of(state), None)
        self.leadership.doubt()

    # ── Desired state ──────────────────────────────────────────────────────────────────────────────────────────────

    @set_ev_cls(EventDesired)  # type: ignore[untyped-decorator]
    def on_desired(self, occurrence: EventDesired) -> None:
        if self._standing is None or not self._standing.leads:
            return
        before, self._desired = self._desired, occurrence.desired
        log.info("policy version %d: %s", self._desired.version, self._desired.policy.scheme)
        if before is None or before.topology != self._desired.topology:
            self._take_topology(self._desired)
        else:
            for state in self._states.values():
                state.want(self._desired)
                self.judged(state, state.verdicts())
        self._name_idle_overrides(self._desired)
        self._check_applied()

    def _name_idle_overrides(self, desired: Desired) -> None:
        """An override that is about no port of this network is most likely a slip."""
        ports = desired.topology.port_by_id
        for override in desired.policy.overrides:
            if not any(override.names(port_id) for port_id in ports):
                log.warning("an override is about no port of this network: %s", ", ".join(override.ports))
                self._record_event("idle-override", version=desired.version, ports=list(override.ports))

    def _take_topology(self, desired: Desired) -> None:
        switches = desired.topology.switches
        self._states = {
            switch.dpid: SwitchState(switch.name, desired, phase=turn / len(switches))
            for turn, switch in enumerate(switches)
        }
        self._dpids = {switch.name: switch.dpid for switch in switches}
        self._sessions.clear()
        for dpid, state in self._states.items():
            self.recorder.record(observed.put_switch, dpid, state.name, connected=False, policy_version=None)
        for state in self._states.values():
            self.judged(state, state.verdicts())
        demoted = [port for state in self._states.values() for port in state.demoted_ports]
        self.recorder.record(sanctions.lift_all_but, demoted)
        for dpid, datapath in self._connections.items():
            self._open_session(dpid, datapath)

    def _check_applied(self) -> None:
        """Say that the network stands at the desired version, once every switch of the topology does."""
        if self._desired is None or self._desired.version == self._applied_version:
            return
        version = self._desired.version
        standing = [
            dpid in self._sessions and state.version == version for dpid, state in self._states.items()
        ]
        if all(standing):
            self._applied_version = version
            log.info("policy version %d is applied by %d switches", version, len(standing))
            self.recorder.record(desired_rows.mark_applied, version)
            self._record_event("policy-applied", version=version, scheme=self._desired.policy.scheme)

    # ── Connections ────────────────────────────────────────────────────────────────────────────────────────────────

    @set_ev_cls(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])  # type: ignore[untyped-decorator]
    def on_connection(self, change: Any) -> None:
        datapath = change.datapath
        if datapath.id is None:
            return
        if change.state == MAIN_DISPATCHER:
            self._connected(datapath)
        else:
            self._ended(datapath)

    def _connected(self, datapath: Connection) -> None:
        """A second connection of a switch replaces the first if that does not answer any more."""
        dpid = datapath.id
        earlier = self._connections.get(dpid)
        if earlier is None:
            self._admit(datapath)
        elif dpid in self._contests:
            self._refuse(self._contests[dpid].established, datapath)
        else:
            log.info("switch %#x connects again, from %s", dpid, datapath.peer)
            self._contests[dpid] = Contest.begin(earlier, datapath, time.monotonic())

    def _settle_contests(self, now: float) -> None:
        for dpid, contest in list(self._contests.items()):
            verdict = contest.verdict(now)
            if verdict is None:
                continue
            del self._contests[dpid]
            if verdict is contest.established:
                self._refuse(verdict, contest.newcomer)
            else:
                log.warning("%s has not answered for %.1f s: replaced", contest.established.peer, PROBE_S)
                self._disconnected(contest.established)
                contest.established.hang_up()
                self._admit(contest.newcomer)

    def _refuse(self, established: Connection, newcomer: Connection) -> None:
        """Two live switches with one datapath id: the first stays; whoever throws it out would be thrown out next."""
        newcomer.hang_up()
        now, who = time.monotonic(), (established.id, newcomer.host)
        if now - self._said_at.get(who, -SAY_AGAIN_S) < SAY_AGAIN_S:
            return
        self._said_at = {k: at for k, at in self._said_at.items() if now - at < SAY_AGAIN_S} | {who: now}
        log.error("two switches have datapath id %#x: %s stays", established.id, established.peer)
        self._record_event(
            "duplicate-datapath-id",
            dpid=established.id,
            established=established.place,
            refused=newcomer.place,
        )

    def _admit(self, datapath: Connection) -> None:
        self._connections[datapath.id] = datapath
        self._be_slave(datapath)
        self._open_session(datapath.id, datapath)

    def _open_session(self, dpid: int, datapath: Connection) -> None:
        if self._desired is None or self._standing is None:
            return
        state = self._states.get(dpid)
        if state is None:
            log.warning("switch %#x is not in the topology: ignored", dpid)
            self._record_event("unknown-switch", dpid=dpid)
            return
        log.info("%s is connected from %s", state.name, datapath.address)
        state.connected(time.monotonic_ns())
        self._metrics.connected(state.name)
        metrics = SwitchMetrics(self._metrics)
        self._sessions[dpid] = Session(datapath, state, self, self._standing.generation, metrics)
        self._record_switch(dpid, connected=True)
        self._record_event("switch-connected", switch=state.name, dpid=dpid)

    def _ended(self, datapath: Connection) -> None:
        contest = self._contests.get(datapath.id)
        if contest is not None and contest.newcomer is datapath:
            del self._contests[datapath.id]
        if self._connections.get(datapath.id) is not datapath:
            return
        self._disconnected(datapath)
        if contest is not None and contest.established is datapath:
            del self._contests[datapath.id]
            self._admit(contest.newcomer)

    def _disconnected(self, datapath: Connection) -> None:
        del self._connections[datapath.id]
        session = self._sessions.pop(datapath.id, None)
        if session is not None:
            log.warning("%s is disconnected", session.state.name)
            self._record_switch(datapath.id, connected=False)
            self._record_event("switch-disconnected", switch=session.state.name, dpid=datapath.id)

    def _session_of(self, datapath: Any) -> Session | None:
        session = self._sessions.get(datapath.id)
        return session if session is not None and session.datapath is datapath else None

    # ── Answers ────────────────────────────────────────────────────────────────────────────────────────────────────

    @set_ev_cls(EventStatsReply)  # type: ignore[untyped-decorator]
    def on_stats(self, reply: EventStatsReply) -> None:
        if session := self._session_of(reply.datapath):
            session.stats(time.monotonic_ns(), reply.xid, reply.stats, reply.body)

    @set_ev_cls(ofp_event.EventOFPBarrierReply, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def on_barrier(self, occurrence: Any) -> None:
        if session := self._session_of(occurrence.msg.datapath):
            session.barrier(time.monotonic_ns(), occurrence.msg.xid)

    @set_ev_cls(ofp_event.EventONFBundleCtrlMsg, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def on_bundle(self, occurrence: Any) -> None:
        session = self._session_of(occurrence.msg.datapath)
        if session is not None:
            session.bundle_answered(occurrence.msg)

    @set_ev_cls(ofp_event.EventOFPErrorMsg, [HANDSHAKE_DISPATCHER, CONFIG_DISPATCHER, MAIN_DISPATCHER])  # type: ignore[untyped-decorator]
    def on_error(self, occurrence: Any) -> None:
        message = occurrence.msg
        if session := self._session_of(message.datapath):
            session.error(time.monotonic_ns(), message)
        elif not openflow.another_is_master(message):
            log.warning("OpenFlow error from %s: %s", message.datapath.peer, openflow.error_text(message))

    # ── What the sessions tell ─────────────────────────────────────────────────────────────────────────────────────

    def thresholds_in_force(self, state: SwitchState, news: list[ThresholdsInForce]) -> None:
        at = time.time()
        changes = [ThresholdChange(at, n.port, n.version, n.thresholds_bytes, n.flows) for n in news]
        if changes:
            self.recorder.record_rows(observed.add_thresholds, changes)
        dpid = self._dpid_of(state)
        if self._recorded_version.get(dpid) != state.version:
            self._record_switch(dpid, connected=True)
            self._check_applied()

    def queues_counted(self, state: SwitchState, counters: Mapping[int, QueueCounters]) -> None:
        at = time.time()
        samples = [
            PortSample(at, port, count.size_bytes, count.packets)
            for number, count in counters.items()
            if (port := state.port_id(number))
        ]
        if samples:
            self.recorder.record_rows(observed.add_port_samples, samples)

    def judged(self, state: SwitchState, verdicts: list[Verdict]) -> None:
        for verdict in verdicts:
            match verdict:
                case Demoted():
                    log.warning("%s: %s is demoted: %s", state.name, verdict.host, verdict)
                    self._metrics.demoted(verdict.host)
                    row = Sanction(since=time.time(), **vars(verdict))
                    self.recorder.record(sanctions.put_sanction, row)
                    self._record_event("host-demoted", **vars(verdict))
                case Restored():
                    log.info("%s: %s is restored: %s", state.name, verdict.host, verdict.reason)
                    self.recorder.record(sanctions.lift_sanction, verdict.port)
                    self._record_event("host-restored", **vars(verdict))

    def refused(self, state: SwitchState, error: str, subject: str) -> None:
        log.error("%s answers with an error: %s (%s)", state.name, error, subject)
        self._record_event("openflow-error", switch=state.name, error=error, rule=subject)

    def _dpid_of(self, state: SwitchState) -> int:
        return self._dpids[state.name]

    def _record_switch(self, dpid: int, *, connected: bool) -> None:
        state = self._states[dpid]
        version = state.version if connected else None
        self._recorded_version[dpid] = version
        self.recorder.record(
            observed.put_switch, dpid, state.name, connected=connected, policy_version=version
        )

    def _record_event(self, kind: str, **document: Any) -> None:
        self.recorder.record(observed.add_event, kind, **document)
