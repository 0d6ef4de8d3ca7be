# SPDX-License-Identifier: Apache-2.0
"""The os-ken application: events in, one session for each switch of the topology, rows out.

There are no locks, because there is one owner. This file, every session and every state belong to
the thread of the application's event loop. The other threads (each connection's reader, the clock,
the store, the lease) only put events into its queue, and it answers through their queues. So no
handler may wait: none reads a socket or the store.

One of several controllers on a store leads (`leadership.py`). The others stay connected as slaves
of every switch, have no session, and write nothing. If they share the switches (`sharing.py`), each is so for the
switches of the others.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice

from os_ken.controller import ofp_event
from os_ken.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER

from controller import openflow
from controller.connection import Connection
from controller.connection_table import PROBE_S, Admitted, ConnectionTable, Decision, Lost, Refused
from controller.counts import QueueCounts
from controller.event_loop import DaemonLoop
from controller.events import (
    EventAgents,
    EventAnswer,
    EventDesired,
    EventLease,
    EventNetwork,
    EventTick,
    EventUrgency,
    handles,
)
from controller.leadership import Leadership, LeaseStatus, Share
from controller.metrics import ControllerMetrics, SwitchMetrics
from controller.openflow import Answer, ErrorReply, Neighbour, PortDescription, PortStatus, Role
from controller.own_part import OwnPart
from controller.policing import Verdict
from controller.port_settings import ThresholdsInForce
from controller.recorder import Recorder
from controller.reporting import Reporter
from controller.session import Session
from controller.sharing import SharedLeadership
from controller.state import Desired, SwitchState
from controller.survey import Survey
from policy.graph import Topology
from policy.sanctions import Demoted
from policy.units import NS_PER_S
from store.parts import NETWORK
from store.totals import add_counts

log = logging.getLogger(__name__)

TICK_S = 0.01
PRESENCE_EVERY_NS = 2_000_000_000
"""Between two updates of a connected switch's row. Readers see by it that the controller lives."""
MAX_SETTLING = 8
"""Switches whose rules are read and corrected at once. The others keep the rules that they have.
"""


class Controller(DaemonLoop):
    """Keeps every switch of the topology at the desired policy."""

    OFP_VERSIONS = [openflow.VERSION]  # noqa: RUF012 (os-ken's interface)
    LOGGER_NAME = __name__

    def __init__(self, store_url: str, *, share: bool = False) -> None:
        """With `share`, this controller shares the switches with others on its store that do so, too."""
        super().__init__()
        self.recorder = Recorder(
            store_url,
            lambda desired: self._enqueue(EventDesired(desired)),
            lambda description, topology: self._enqueue(EventNetwork(description, topology)),
            lambda agents: self._enqueue(EventAgents(agents)),
            lambda reports: self._enqueue(EventUrgency(reports)),
        )
        self._sharing = SharedLeadership(store_url, self._looked) if share else None
        self.leadership = self._sharing or Leadership(store_url, self._looked)
        self._reporter = Reporter(self.recorder)
        self._lease: LeaseStatus | None = None
        self._desired: Desired | None = None
        """None while another controller leads."""
        self._part = OwnPart()
        self._states: dict[int, SwitchState] = {}
        """Of the switches that this controller leads."""
        self._connections: ConnectionTable[Connection] = ConnectionTable()
        self._sessions: dict[int, Session] = {}
        self._survey = Survey(self._connections, self._reporter, self._generation)
        self._metrics = ControllerMetrics()
        self._dpids: dict[str, int] = {}
        self._applied_version = 0
        self._presence_due_ns = 0
        self.turned_s = -math.inf
        """When the loop last handled a tick, on the monotonic clock."""
        self._tick_waiting = threading.Event()
        self._stopped = threading.Event()

    # ── Life ────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        super().start()
        self.recorder.start()
        self.leadership.start()
        threading.Thread(target=self._clock, name="clock", daemon=True).start()

    def wind_down(self) -> None:
        """Ignore answers from now on: the ends of connections must not wait behind hundreds of them. Any thread."""
        self._stopped.set()

    def stop(self) -> None:
        self.wind_down()
        super().stop()

    def _enqueue(
        self, event: EventAgents | EventDesired | EventLease | EventNetwork | EventTick | EventUrgency
    ) -> None:
        self._send_event(event, None)

    def _looked(self, status: LeaseStatus) -> None:
        self._enqueue(EventLease(status))

    def _clock(self) -> None:
        """Enqueue ticks; at most one waits in the queue, however busy the loop is."""
        while not self._stopped.wait(TICK_S):
            if not self._tick_waiting.is_set():
                self._tick_waiting.set()
                self._enqueue(EventTick())

    @handles(EventTick)
    def on_tick(self, tick: EventTick) -> None:
        self._tick_waiting.clear()
        now_ns = time.monotonic_ns()
        self.turned_s = now_ns / NS_PER_S
        self._carry_out(self._connections.settle(now_ns / 1e9))
        if not self.may_act(now_ns):
            return
        self._advance_sessions(now_ns, tick.at_ns)
        for part in self._part.to_drop(self._sessions, now_ns):
            self._drop(part)
        self._survey.turn(now_ns)
        if now_ns >= self._presence_due_ns:
            self._presence_due_ns = now_ns + PRESENCE_EVERY_NS
            for dpid in self._sessions:
                self._record_switch(dpid, connected=True)
            one = next(iter(self._sessions), NETWORK)
            self.recorder.record_of(one, add_counts, self._metrics.tally.take())

    def _advance_sessions(self, now_ns: int, at_ns: int) -> None:
        """Advance all started sessions, and let a few others begin.

        If all switches of a network connect at one moment, one controller cannot read and correct
        all rules within the time limit of an operation. So at most MAX_SETTLING do at once.
        """
        begun = [session for session in self._sessions.values() if session.has_begun]
        room = MAX_SETTLING - sum(session.is_settling for session in begun)
        waiting = (session for session in self._sessions.values() if not session.has_begun)
        for session in [*begun, *islice(waiting, max(0, room))]:
            session.check_time(at_ns)
            session.advance(now_ns)

    # ── Leading and following ───────────────────────────────────────────────────────────────────

    def may_act(self, now_ns: int) -> bool:
        """Whether this controller leads, has looked at the lease recently, and is not stopping."""
        leads = self._lease is not None and self._lease.leads and self._lease.is_fresh(now_ns)
        return leads and not self._stopped.is_set()

    def _generation(self) -> int | None:
        """Return the generation of the lease, or of the newest own part; None while another controller leads."""
        return self._lease.generation if self._lease is not None and self._lease.leads else None

    @handles(EventLease)
    def on_lease(self, event: EventLease) -> None:
        before, self._lease = self._lease, event.status
        now = self._lease
        if now.share is not None:
            self._take_share(now, now.share, before.share if before is not None else None)
            return
        shared = before is not None and before.share is not None
        if not shared and before and (before.leads, before.generation) == (now.leads, now.generation):
            return
        if now.leads:
            self._lead(now)
        else:
            self._follow(now)

    def _lead(self, status: LeaseStatus) -> None:
        log.info("leading, generation %d", status.generation)
        self._reset()
        self.recorder.lead(status.generation)
        self._reporter.leading(status.generation)

    def _follow(self, status: LeaseStatus) -> None:
        log.info("following: another controller leads, generation %d", status.generation)
        self._reset()
        self.recorder.follow()
        for _, connection in self._connections.items():
            self._become_slave(connection)

    def _reset(self) -> None:
        """Forget what is desired: a controller that begins to lead receives it again."""
        self._desired = None
        self._states.clear()
        self._sessions.clear()
        self._part = OwnPart()
        self._applied_version = 0

    def _become_slave(self, connection: Connection) -> None:
        if self._lease is None or self._lease.leads_at(connection.id):
            return
        if generation := self._lease.generation_at(connection.id):
            connection.send(openflow.role_request(connection, Role.SLAVE, generation).data)

    @property
    def _shares(self) -> bool:
        return self._lease is not None and self._lease.share is not None

    # ── Sharing ─────────────────────────────────────────────────────────────────────────────────

    def _take_share(self, status: LeaseStatus, share: Share, before: Share | None) -> None:
        """Take what the store says of this controller's part. New switches begin with the next desired state."""
        if before is None:
            log.info("sharing the switches with other controllers, generation %d", status.generation)
            self._reset()
            self._survey = Survey(self._connections, self._reporter, self._generation)
            for _, connection in self._connections.items():
                self._survey.admitted(connection, time.monotonic_ns())
        lost, gained = self._part.adopt(share, self._sessions, time.monotonic_ns())
        for part in lost:
            self._forget(part)
        self.recorder.share(self._part.held, share.since, status.generation)
        known = before.known if before is not None else {}
        for part, generation in share.known.items():
            if known.get(part) != generation:
                self._yield(part)
        if lost or gained:
            log.info(
                "leading %d switches, generation %d", len(share.held.keys() - {NETWORK}), status.generation
            )
        if NETWORK in gained:
            self._reporter.leading(status.generation)

    def _forget(self, part: int) -> None:
        self._sessions.pop(part, None)
        self._states.pop(part, None)

    def _yield(self, part: int) -> None:
        """Become slave of a switch, unless this controller leads it."""
        if (connection := self._connections.established(part)) is not None:
            self._become_slave(connection)

    def _drop(self, part: int) -> None:
        """Leave a part to another controller, once the store has its last rows."""
        self._forget(part)
        self._yield(part)
        if (sharing := self._sharing) is not None:
            self.recorder.finish(part, partial(sharing.dropped, part, self._part.held[part]))

    def mastership_lost(self, state: SwitchState) -> None:
        """A switch has reported another master: request nothing until the lease has been read."""
        log.warning("%s reports that another controller is its master", state.name)
        dpid = self._dpids[state.name]
        self._sessions.pop(dpid, None)
        self.leadership.doubt(dpid)

    # ── Desired state ───────────────────────────────────────────────────────────────────────────

    @handles(EventDesired)
    def on_desired(self, event: EventDesired) -> None:
        if event.desired.generation != self._generation():
            return
        before, self._desired = self._desired, event.desired
        if before is None or before.version != self._desired.version:
            log.info("policy version %d: %s", self._desired.version, self._desired.policy.scheme)
        if before is None or not before.topology.has_ports_of(self._desired.topology):
            self._adopt_topology(self._desired)
        else:
            for state in self._states.values():
                state.reroute(self._desired.topology)
                state.want(self._desired)
                self.hosts_judged(state, state.take_verdicts())
            for dpid in self._begin_switches(self._desired) if self._shares else ():
                if (connection := self._connections.established(dpid)) is not None:
                    self._open_session(dpid, connection)
        self._reporter.idle_overrides(self._desired)
        self._check_applied()

    def _adopt_topology(self, desired: Desired) -> None:
        self._dpids = {switch.name: switch.dpid for switch in desired.topology.switches}
        self._reporter.dpids = self._dpids
        self._states.clear()
        self._sessions.clear()
        self._begin_switches(desired)
        if not self._shares:
            demoted = [port for state in self._states.values() for port in state.demoted_ports]
            self._reporter.demoted_ports(demoted)
        for dpid, connection in self._connections.items():
            self._open_session(dpid, connection)

    def _begin_switches(self, desired: Desired) -> Collection[int]:
        """Make the states of the switches that this controller leads since a moment ago. Returns their datapath ids."""
        switches = desired.topology.switches
        new = {
            switch.dpid: SwitchState(switch.name, desired, phase=turn / len(switches))
            for turn, switch in enumerate(switches)
            if self._lease and self._lease.leads_at(switch.dpid) and switch.dpid not in self._states
        }
        self._states |= new
        for dpid in new:
            self._record_switch(dpid, connected=False)
        for state in new.values():
            self.hosts_judged(state, state.take_verdicts())
            if self._shares:
                self._reporter.demoted_ports_of(state.name, state.demoted_ports, state.port_ids)
        return new

    @handles(EventNetwork)
    def on_network(self, event: EventNetwork) -> None:
        if self._shares or event.description.generation != self._generation():
            return
        left = self._survey.adopt(event, time.monotonic_ns())
        if left is not None:
            self._leave(left)
        for dpid, connection in self._connections.items():
            if dpid not in self._states:
                self._survey.ask_for_links(dpid, connection)

    @handles(EventAgents)
    def on_agents(self, event: EventAgents) -> None:
        self._survey.network.agents_named(event.agents)

    @handles(EventUrgency)
    def on_urgency(self, event: EventUrgency) -> None:
        for state in self._states.values():
            state.explain_urgency(event.reports)

    def _leave(self, topology: Topology) -> None:
        """Remove all rules from the switches of a network, and forget it."""
        log.info("the description of the network is withdrawn: leaving %d switches", len(topology.switches))
        self._sessions.clear()  # so that none commits rules after they have been removed
        self._states.clear()
        self._survey.leave(topology)
        self.recorder.put_topology(replace(topology, hosts=(), switches=(), ports=()))

    def _check_applied(self) -> None:
        """Report, once for each version, that every switch of the topology implements it.

        If the switches are shared, the coordinator does so by their rows (`rollout.py`).
        """
        if self._shares or self._desired is None or self._desired.version == self._applied_version:
            return
        version = self._desired.version
        if all(d in self._sessions and s.version == version for d, s in self._states.items()):
            self._applied_version = version
            self._reporter.applied(self._desired, len(self._states))

    # ── Connections ─────────────────────────────────────────────────────────────────────────────

    @handles(ofp_event.EventOFPStateChange, MAIN_DISPATCHER, DEAD_DISPATCHER)
    def on_connection(self, change: ofp_event.EventOFPStateChange) -> None:
        connection: Connection = change.datapath
        dpid: int | None = connection.id
        if dpid is None:
            return
        if change.state == MAIN_DISPATCHER:
            decisions = self._connections.connected(dpid, connection, time.monotonic())
            if not decisions:
                log.info("switch %#x connects again, from %s", dpid, connection.place)
            self._carry_out(decisions)
        else:
            self._carry_out(self._connections.ended(dpid, connection))

    def _carry_out(self, decisions: Iterable[Decision[Connection]]) -> None:
        for decision in decisions:
            match decision:
                case Admitted(connection):
                    self._survey.admitted(connection, time.monotonic_ns())
                    self._become_slave(connection)
                    self._open_session(connection.id, connection)
                case Refused(established, newcomer):
                    newcomer.hang_up()
                    dpid, now_ns = established.id, time.monotonic_ns()
                    self._survey.network.duplicate(dpid, newcomer.host, now_ns)
                    self._reporter.duplicate(dpid, established, newcomer, now_ns / NS_PER_S)
                case Lost(connection, silent):
                    if silent:
                        log.warning("%s: no answer for %.1f s, replaced", connection.peer, PROBE_S)
                        connection.hang_up()
                    self._close_session(connection.id)

    def _open_session(self, dpid: int, connection: Connection) -> None:
        if self._lease is None:
            return
        state = self._states.get(dpid)
        if state is None and self._shares:
            if self._desired is not None and dpid not in self._dpids.values():
                self._reporter.unknown_switch(dpid)
        elif state is None and self._survey.network.wants(dpid):
            self._survey.ask_for_links(dpid, connection)
        elif state is None and self._survey.is_leaving:
            self._survey.release(connection, bridges=False)
        elif state is None and self._desired is not None:
            self._reporter.unknown_switch(dpid)
        if state is None:
            return
        log.info("%s is connected from %s", state.name, connection.place)
        state.connected(time.monotonic_ns())
        self._metrics.connected(state.name)
        generation, metrics = self._lease.generation_at(dpid), SwitchMetrics(self._metrics)
        self._sessions[dpid] = Session(connection, state, self, generation, metrics)
        self._record_switch(dpid, connected=True)
        self._reporter.connected(dpid, state.name)

    def _close_session(self, dpid: int) -> None:
        session = self._sessions.pop(dpid, None)
        if session is not None:
            self._record_switch(dpid, connected=False)
            self._reporter.disconnected(dpid, session.state.name)

    @handles(EventAnswer)
    def on_answer(self, event: EventAnswer) -> None:
        if self._stopped.is_set():
            return
        connection, answer, now_ns = event.connection, event.answer, time.monotonic_ns()
        match answer:
            case PortDescription() | PortStatus() | Neighbour():
                self._survey.take(connection, answer, now_ns)
            case _:
                self._take_answer(connection, answer, now_ns)

    def _take_answer(self, connection: Connection, answer: Answer, now_ns: int) -> None:
        session = self._sessions.get(connection.id)
        if session is not None and session.connection is connection:
            session.take(now_ns, answer)
        elif isinstance(answer, ErrorReply) and not answer.denies_mastership:
            log.warning("OpenFlow error from %s: %s", connection.peer, answer.text)

    # ── Results of sessions ─────────────────────────────────────────────────────────────────────

    def thresholds_in_force(self, state: SwitchState, news: list[ThresholdsInForce]) -> None:
        self._reporter.thresholds(state.name, news)
        dpid = self._dpids[state.name]
        if self._reporter.recorded_version(dpid) != state.version:
            self._record_switch(dpid, connected=True)
            self._check_applied()

    def queues_counted(self, state: SwitchState, counts: Mapping[int, QueueCounts]) -> None:
        self._reporter.queues(state, counts)

    def hosts_seen(self, state: SwitchState, learned_rules: bytes) -> None:
        dpid = self._dpids[state.name]
        hosts = openflow.learned_hosts(dpid, learned_rules)
        self._survey.network.hosts_seen(dpid, hosts, time.monotonic_ns())

    def hosts_judged(self, state: SwitchState, verdicts: list[Verdict]) -> None:
        for verdict in verdicts:
            if isinstance(verdict, Demoted):
                self._metrics.demoted(verdict.host)
            self._reporter.verdict(state.name, verdict)

    def change_refused(self, state: SwitchState, error: str, subject: str) -> None:
        self._reporter.change_refused(state.name, error, subject)

    def _record_switch(self, dpid: int, *, connected: bool) -> None:
        state = self._states[dpid]
        version = state.version if connected else None
        self._reporter.switch(dpid, state.name, connected=connected, version=version)
