# SPDX-License-Identifier: Apache-2.0
"""The switches that this controller leads: a state for each, a session for each that is connected, and their results.

It belongs to the application's thread (app.py).
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from itertools import islice

from sluice.controller.connection import Connection
from sluice.controller.leadership import LeaseStatus
from sluice.controller.network import NetworkKeeper
from sluice.controller.openflow import learn
from sluice.controller.openflow.counters import QueueCounts
from sluice.controller.policing.overlay import NetworkPolicing
from sluice.controller.port_settings import ThresholdsInForce
from sluice.controller.reporting import Reporter
from sluice.controller.session import AgentSession, Session, as_reported
from sluice.controller.state import Desired, SwitchState
from sluice.policy.network.description import SeenHost
from sluice.policy.wire.agents import PortHeartbeat
from sluice.store.totals import SWITCH_CONNECTS, Tally

log = logging.getLogger(__name__)

MAX_SETTLING = 8
"""Switches whose rules are read and corrected at once. The others keep the rules that they have.
"""


class LedSwitches:
    def __init__(
        self,
        reporter: Reporter,
        stopped: threading.Event,
        network: NetworkKeeper,
        on_other_master: Callable[[], None],
    ) -> None:
        """`stopped`: the controller ends. `network` takes the hosts that switches have learned.

        `on_other_master`: a switch has reported another master.
        """
        self._reporter, self._stopped = reporter, stopped
        self._network, self._on_other_master = network, on_other_master
        self.lease: LeaseStatus | None = None
        self.desired: Desired | None = None
        """None while another controller leads."""
        self.states: dict[int, SwitchState] = {}
        self.sessions: dict[int, Session | AgentSession] = {}
        self.tally = Tally()
        """Counts the work of all sessions."""
        self.policing = NetworkPolicing(reporter, self.tally)
        self._applied_version = 0

    # ── What it leads ───────────────────────────────────────────────────────────────────────────

    def may_act(self, now_ns: int) -> bool:
        """Whether this controller leads, has looked at the lease recently, and is not stopping."""
        leads = self.lease is not None and self.lease.leads and self.lease.is_fresh(now_ns)
        return leads and not self._stopped.is_set()

    def generation(self) -> int | None:
        """Return the generation of the lease; None while another controller leads."""
        return self.lease.generation if self.lease is not None and self.lease.leads else None

    def reset(self) -> None:
        """Forget what is desired: a controller that begins to lead receives it again."""
        self.desired = None
        self.clear()
        self._applied_version = 0

    def clear(self) -> None:
        """Forget all switches."""
        self.sessions.clear()
        self.states.clear()
        self.policing.clear()

    # ── Desired state ───────────────────────────────────────────────────────────────────────────

    def adopt(self, desired: Desired) -> bool:
        """Take another desired state. Returns whether all sessions have ended, as for a network with other ports."""
        before, self.desired = self.desired, desired
        if before is None or before.version != desired.version:
            log.info("policy version %d: %s", desired.version, desired.policy.scheme)
        if before is not None and before.topology.has_ports_of(desired.topology):
            forwards = {switch.name: switch.forwards for switch in desired.topology.switches}
            for state in self.states.values():
                state.want(desired if forwards[state.name] else as_reported(desired))
            return False
        switches = desired.topology.switches
        self.clear()
        for turn, switch in enumerate(switches):
            phase = turn / len(switches)
            if switch.forwards:
                overlay = self.policing.overlay(switch.name, desired, phase)
                self.states[switch.dpid] = SwitchState(switch.name, desired, phase, overlay)
            else:
                state = self.states[switch.dpid] = SwitchState(switch.name, as_reported(desired), phase)
                self.sessions[switch.dpid] = AgentSession(state, self, time.monotonic_ns())
        for dpid in self.states:
            self._record(dpid, connected=False)
        self.policing.begin()
        return True

    def check_applied(self) -> None:
        """Report, once for each version, that every switch of the topology implements it."""
        if self.desired is None or self.desired.version == self._applied_version:
            return
        version = self.desired.version
        if all(d in self.sessions and s.version == version for d, s in self.states.items()):
            self._applied_version = version
            self._reporter.applied(self.desired, len(self.states))

    # ── Sessions ────────────────────────────────────────────────────────────────────────────────

    def open_session(self, dpid: int, connection: Connection) -> bool:
        """Begin a session with a switch. Returns False if this controller does not lead it."""
        if self.lease is None or (state := self.states.get(dpid)) is None:
            return False
        log.info("%s is connected from %s", state.name, connection.place)
        state.connected(time.monotonic_ns())
        self.tally.count(SWITCH_CONNECTS, switch=state.name)
        self.sessions[dpid] = Session(connection, state, self, self.lease.generation, self.tally)
        self._record(dpid, connected=True)
        self._reporter.connected(dpid, state.name)
        return True

    def close_session(self, dpid: int) -> None:
        session = self.sessions.pop(dpid, None)
        if session is not None:
            self._record(dpid, connected=False)
            self._reporter.disconnected(dpid, session.state.name)

    def advance(self, now_ns: int, at_ns: int) -> None:
        """Advance all started sessions, and let a few others begin.

        If all switches of a network connect at one moment, one controller cannot read and correct
        all rules within the time limit of an operation. So at most MAX_SETTLING do at once.
        """
        begun = [session for session in self.sessions.values() if session.has_begun]
        room = MAX_SETTLING - sum(session.is_settling for session in begun)
        waiting = (session for session in self.sessions.values() if not session.has_begun)
        for session in [*begun, *islice(waiting, max(0, room))]:
            session.check_time(at_ns)
            session.advance(now_ns)

    def take_reports(self, beats: Mapping[str, PortHeartbeat]) -> None:
        """Take the newest heartbeats of the port agents at switches that forward by themselves, by switch."""
        now_ns = time.monotonic_ns()
        for session in self.sessions.values():
            if isinstance(session, AgentSession) and (beat := beats.get(session.state.name)):
                session.take(now_ns, beat)

    # ── Results of sessions ─────────────────────────────────────────────────────────────────────

    def mastership_lost(self, state: SwitchState) -> None:
        """A switch has reported another master: request nothing until the lease has been read."""
        log.warning("%s reports that another controller is its master", state.name)
        self.sessions.pop(state.dpid, None)
        self._on_other_master()

    def thresholds_in_force(self, state: SwitchState, news: list[ThresholdsInForce]) -> None:
        self._reporter.thresholds(news)
        dpid = state.dpid
        if self._reporter.recorded_version(dpid) != state.version:
            self._record(dpid, connected=True)
            self.check_applied()

    def queues_counted(self, state: SwitchState, counts: Mapping[int, QueueCounts]) -> None:
        self._reporter.queues(state, counts)

    def hosts_seen(self, state: SwitchState, learned_rules: bytes) -> list[SeenHost]:
        dpid, now_ns = state.dpid, time.monotonic_ns()
        self._network.hosts_seen(dpid, learn.learned_hosts(dpid, learned_rules), now_ns)
        return self._network.departed(dpid, now_ns)

    def change_refused(self, state: SwitchState, error: str, subject: str) -> None:
        self._reporter.change_refused(state.name, error, subject)

    # ── Rows ────────────────────────────────────────────────────────────────────────────────────

    def record_presence(self) -> None:
        """Update the rows of the connected switches."""
        now_ns = time.monotonic_ns()
        for dpid, session in self.sessions.items():
            self._record(dpid, connected=session.is_alive(now_ns))

    def _record(self, dpid: int, *, connected: bool) -> None:
        state = self.states[dpid]
        version = state.version if connected else None
        self._reporter.switch(dpid, state.name, connected=connected, version=version)
