# SPDX-License-Identifier: Apache-2.0
"""The os-ken application: events in, one session for each switch of the topology, rows for the store out.

Lock discipline: there are no locks, because there is one owner. Everything in this file, every session and every
state belongs to the application's event-loop thread. The other threads (each connection's reader, the clock, the
store) only put events into its queue; what it tells them goes through their queues. So no handler waits, and none may:
it neither reads a socket nor the store.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from os_ken.controller import event, ofp_event
from os_ken.controller.handler import (
    CONFIG_DISPATCHER,
    DEAD_DISPATCHER,
    HANDSHAKE_DISPATCHER,
    MAIN_DISPATCHER,
    set_ev_cls,
)

from controller import openflow
from controller.connection import DaemonLoop, EventStatsReply
from controller.openflow import QueueCounters
from controller.recorder import Recorder
from controller.session import Session
from controller.state import Desired, SwitchState, ThresholdsInForce
from store import desired as desired_rows
from store import observed
from store.observed import PortSample, ThresholdChange

log = logging.getLogger(__name__)

TICK_S = 0.01
PRESENCE_EVERY_NS = 2_000_000_000
"""Say this often that a switch is connected, so that readers can tell a dead controller's rows from a live one's."""


class EventTick(event.EventBase):  # type: ignore[misc]
    """Time has passed."""


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
        self._desired: Desired | None = None
        self._states: dict[int, SwitchState] = {}
        self._connections: dict[int, Any] = {}
        """The live connection of each datapath id, known or not."""
        self._sessions: dict[int, Session] = {}
        self._applied_version = 0
        self._presence_due_ns = 0
        self._tick_waiting = threading.Event()
        self._stopped = threading.Event()

    # ── Life ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        super().start()
        self.recorder.start()
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
    def on_tick(self, _tick: EventTick) -> None:
        self._tick_waiting.clear()
        now_ns = time.monotonic_ns()
        for session in list(self._sessions.values()):
            session.advance(now_ns)
        if now_ns >= self._presence_due_ns:
            self._presence_due_ns = now_ns + PRESENCE_EVERY_NS
            for dpid in self._sessions:
                self._record_switch(dpid, connected=True)

    # ── Desired state ──────────────────────────────────────────────────────────────────────────────────────────────

    @set_ev_cls(EventDesired)  # type: ignore[untyped-decorator]
    def on_desired(self, occurrence: EventDesired) -> None:
        before, self._desired = self._desired, occurrence.desired
        log.info("policy version %d: %s", self._desired.version, self._desired.policy.scheme)
        if before is None or before.topology != self._desired.topology:
            self._take_topology(self._desired)
        else:
            for state in self._states.values():
                state.want(self._desired)
        self._check_applied()

    def _take_topology(self, desired: Desired) -> None:
        self._states = {
            switch.dpid: SwitchState(switch.name, desired) for switch in desired.topology.switches
        }
        self._sessions.clear()
        for dpid, state in self._states.items():
            self.recorder.record(observed.put_switch, dpid, state.name, connected=False, policy_version=None)
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
        elif self._connections.get(datapath.id) is datapath:
            self._disconnected(datapath)

    def _connected(self, datapath: Any) -> None:
        """A second connection of a switch replaces the first, which it has most likely lost."""
        earlier = self._connections.get(datapath.id)
        self._connections[datapath.id] = datapath
        if earlier is not None:
            log.warning("switch %#x has connected again", datapath.id)
            earlier.hang_up()
        self._open_session(datapath.id, datapath)

    def _open_session(self, dpid: int, datapath: Any) -> None:
        state = self._states.get(dpid)
        if state is None:
            if self._desired is not None:
                log.warning("switch %#x is not in the topology: ignored", dpid)
                self._record_event("unknown-switch", dpid=dpid)
            return
        log.info("%s is connected from %s", state.name, datapath.address)
        state.connected(time.monotonic_ns())
        self._sessions[dpid] = Session(datapath, state, self)
        self._record_switch(dpid, connected=True)
        self._record_event("switch-connected", switch=state.name, dpid=dpid)
        self._sessions[dpid].advance(time.monotonic_ns())

    def _disconnected(self, datapath: Any) -> None:
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
        if session is not None and openflow.is_commit_reply(occurrence.msg):
            session.bundle_committed()

    @set_ev_cls(ofp_event.EventOFPErrorMsg, [HANDSHAKE_DISPATCHER, CONFIG_DISPATCHER, MAIN_DISPATCHER])  # type: ignore[untyped-decorator]
    def on_error(self, occurrence: Any) -> None:
        message = occurrence.msg
        text = openflow.error_text(message)
        if session := self._session_of(message.datapath):
            session.error(message.xid, text)
        else:
            log.warning("OpenFlow error from %s: %s", message.datapath.peer, text)

    # ── What the sessions tell ─────────────────────────────────────────────────────────────────────────────────────

    def thresholds_in_force(self, state: SwitchState, news: list[ThresholdsInForce]) -> None:
        at = time.time()
        changes = [ThresholdChange(at, n.port, n.version, n.thresholds_bytes, n.flows) for n in news]
        if changes:
            self.recorder.record(observed.add_thresholds, changes)
        self._record_switch(self._dpid_of(state), connected=True)
        self._check_applied()

    def queues_counted(self, state: SwitchState, counters: Mapping[int, QueueCounters]) -> None:
        at = time.time()
        samples = [
            PortSample(at, port, count.size_bytes, count.packets)
            for number, count in counters.items()
            if (port := state.port_id(number))
        ]
        if samples:
            self.recorder.record(observed.add_port_samples, samples)

    def refused(self, state: SwitchState, error: str, subject: str) -> None:
        log.error("%s answers with an error: %s (%s)", state.name, error, subject)
        self._record_event("openflow-error", switch=state.name, error=error, rule=subject)

    def _dpid_of(self, state: SwitchState) -> int:
        return next(dpid for dpid, other in self._states.items() if other is state)

    def _record_switch(self, dpid: int, *, connected: bool) -> None:
        state = self._states[dpid]
        version = state.version if connected else None
        self.recorder.record(
            observed.put_switch, dpid, state.name, connected=connected, policy_version=version
        )

    def _record_event(self, kind: str, **document: Any) -> None:
        self.recorder.record(observed.add_event, kind, **document)
