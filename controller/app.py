# SPDX-License-Identifier: Apache-2.0
"""The os-ken application: events in, orders to the switches that it leads (`led_switches.py`), rows out.

There are no locks, because there is one owner. This file, every session and every state belong to
the thread of the application's event loop. The other threads (those of connections, the clock,
the store, the lease) only put orders and events into its queue, and it answers through their queues. So no
handler may wait: none reads a socket or the store.

One of several controllers on a store leads (`leadership.py`). The others stay connected as slaves
of every switch, have no session, and write nothing.

`Launcher` starts the threads, and stops them in order.
"""

import logging
import math
import os
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import ParamSpec, TypeVar

from os_ken.base.app_manager import AppManager, OSKenApp
from os_ken.controller import event, ofp_event
from os_ken.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.controller.ofp_handler import OFPHandler

from sluice.controller.connection import Connection, EventAnswer, Listener
from sluice.controller.connection_table import PROBE_S, Admitted, ConnectionTable, Decision, Lost, Refused
from sluice.controller.leadership import Leadership, LeaseStatus
from sluice.controller.led_switches import LedSwitches
from sluice.controller.network import Description, NetworkKeeper
from sluice.controller.openflow import frames, request
from sluice.controller.openflow.answers import Answer, ErrorReply, Neighbour, PortDescription, PortStatus
from sluice.controller.recorder import Recorder
from sluice.controller.reporting import Reporter
from sluice.controller.state import Desired
from sluice.controller.survey import Survey
from sluice.policy.network.graph import Topology
from sluice.policy.units import NS_PER_S
from sluice.runtime.lifecycle import Notifier, end_signals
from sluice.store.totals import add_counts

log = logging.getLogger(__name__)

TICK_S = 0.01
PRESENCE_EVERY_NS = 2_000_000_000
"""Between two updates of a connected switch's row. Readers see by it that the controller lives."""
P = ParamSpec("P")
Handler = TypeVar("Handler", bound=Callable[..., None])


def handles(event_class: type, *states: str) -> Callable[[Handler], Handler]:
    """Return the decorator of a handler; `states` of the connection, all unless given."""
    decorator: Callable[[Handler], Handler] = set_ev_cls(event_class, list(states) or None)
    return decorator


class Order(event.EventBase):  # type: ignore[misc]
    """Another thread wants the application's loop to do something."""

    def __init__(self, carry_out: Callable[[], None]) -> None:
        super().__init__()
        self.carry_out = carry_out


class Handshake(OFPHandler):  # type: ignore[misc]
    """os-ken's handshake without os-ken's server. It also hands on the answers of switches.

    It has no loop: the threads of connections call its handlers.
    """

    LOGGER_NAME = "os_ken.handshake"

    _EVENTS = [EventAnswer]  # noqa: RUF012 (os-ken's interface)


class Controller(OSKenApp):  # type: ignore[misc]
    """Keeps every switch of the topology at the desired policy.

    It stops when a handler raises an exception. os-ken logs the exception and continues with half of the
    handler's work done. Stopping is safer, because a new controller reads the rules of the switches and
    changes nothing that is right.
    """

    OFP_VERSIONS = [frames.VERSION]  # noqa: RUF012 (os-ken's interface)
    LOGGER_NAME = __name__

    def __init__(self, store_url: str) -> None:
        super().__init__()
        self.failed: Callable[[], None] = lambda: None
        """Called when a handler has raised an exception."""
        self._stopped = threading.Event()
        network = NetworkKeeper()
        self.leadership = Leadership(store_url, self._in_loop(self.take_lease_status))
        self.recorder = Recorder(
            store_url,
            self._in_loop(self._adopt),
            self._in_loop(self._adopt_network),
            self._in_loop(network.agents_named),
            lambda reports: self._enqueue(Order(lambda: self._led.policing.explain_urgency(reports))),
            lambda beats: self._enqueue(Order(lambda: self._led.take_reports(beats))),
            self._in_loop(network.columns_reported),
        )
        self._reporter = Reporter(self.recorder)
        self._led = LedSwitches(self._reporter, self._stopped, network, self.leadership.dispute)
        self._connections: ConnectionTable[Connection] = ConnectionTable()
        self._survey = Survey(network, self._connections, self._reporter, self._led.generation)
        self._presence_due_ns = 0
        self.turned_s = -math.inf
        """When the loop last handled a tick, on the monotonic clock."""
        self._tick_waiting = threading.Event()

    # ── Life ────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        loop = threading.Thread(target=self._event_loop, name=self.name, daemon=True)
        self.threads.append(loop)
        loop.start()
        self.recorder.start()
        self.leadership.start()
        threading.Thread(target=self._clock, name="clock", daemon=True).start()

    def _event_loop(self) -> None:
        try:
            while self.is_active or not self.events.empty():
                queued, state = self.events.get()
                self._events_sem.release()
                if queued != self._event_stop:
                    for handler in list(self.get_handlers(queued, state)):
                        handler(queued)
        except Exception:
            log.exception("%s: a handler has failed; the controller ends", self.name)
            self.failed()

    def wind_down(self) -> None:
        """Ignore answers from now on: the ends of connections must not wait behind hundreds of them. Any thread."""
        self._stopped.set()

    def stop(self) -> None:
        self.wind_down()
        super().stop()

    def _enqueue(self, order: Order) -> None:
        self._send_event(order, None)

    def _in_loop(self, function: Callable[P, None]) -> Callable[P, None]:
        """Return what other threads call instead of the function: the loop calls it later."""

        def later(*args: P.args, **kwargs: P.kwargs) -> None:
            self._enqueue(Order(lambda: function(*args, **kwargs)))

        return later

    def _clock(self) -> None:
        """Enqueue ticks; at most one waits in the queue, however busy the loop is."""
        while not self._stopped.wait(TICK_S):
            if not self._tick_waiting.is_set():
                self._tick_waiting.set()
                self._in_loop(self._tick)(time.monotonic_ns())

    @handles(Order)
    def on_order(self, order: Order) -> None:
        order.carry_out()

    def _tick(self, queued_ns: int) -> None:
        self._tick_waiting.clear()
        now_ns = time.monotonic_ns()
        self.turned_s = now_ns / NS_PER_S
        self._carry_out(self._connections.settle(now_ns / 1e9))
        if not self._led.may_act(now_ns):
            return
        self._led.advance(now_ns, queued_ns)
        self._survey.turn(now_ns)
        if now_ns >= self._presence_due_ns:
            self._presence_due_ns = now_ns + PRESENCE_EVERY_NS
            self._led.record_presence()
            self.recorder.record(add_counts, self._led.tally.take())

    # ── Leading and following ───────────────────────────────────────────────────────────────────

    def take_lease_status(self, now: LeaseStatus) -> None:
        """The controller has looked at the lease."""
        before, self._led.lease = self._led.lease, now
        if before and (before.leads, before.generation) == (now.leads, now.generation):
            return
        if now.leads:
            log.info("leading, generation %d", now.generation)
            self._led.reset()
            self.recorder.lead(now.generation)
            self._reporter.leading(now.generation)
        else:
            log.info("following: another controller leads, generation %d", now.generation)
            self._led.reset()
            self.recorder.follow()
            for _, connection in self._connections.items():
                self._become_slave(connection)

    def _become_slave(self, connection: Connection) -> None:
        lease = self._led.lease
        if lease is not None and not lease.leads and lease.generation:
            connection.send(request.role_request(connection, request.Role.SLAVE, lease.generation).data)

    # ── Desired state ───────────────────────────────────────────────────────────────────────────

    def _adopt(self, desired: Desired) -> None:
        """Take another topology or policy of the store."""
        if desired.generation != self._led.generation():
            return
        if self._led.adopt(desired):
            for dpid, connection in self._connections.items():
                self._open_session(dpid, connection)
        self._reporter.idle_overrides(desired)
        self._led.check_applied()

    def _adopt_network(self, description: Description, topology: Topology | None) -> None:
        """Take the description of the network and its graph, as the store has them."""
        if description.generation != self._led.generation():
            return
        withdrawn = self._survey.adopt(description, topology, time.monotonic_ns())
        if withdrawn is not None:
            switches = len(withdrawn.switches)
            log.info("the description of the network is withdrawn: leaving %d switches", switches)
            self._led.clear()  # so that no session commits rules after they have been removed
            self._survey.leave(withdrawn)
            self.recorder.put_topology(replace(withdrawn, hosts=(), switches=(), ports=()))
        for dpid, connection in self._connections.items():
            if dpid not in self._led.states:
                self._survey.ask_for_links(dpid, connection)

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
                    self._reporter.duplicate(dpid, established.place, newcomer.place, now_ns / NS_PER_S)
                case Lost(connection, silent):
                    if silent:
                        log.warning("%s: no answer for %.1f s, replaced", connection.peer, PROBE_S)
                        connection.hang_up()
                    self._led.close_session(connection.id)

    def _open_session(self, dpid: int, connection: Connection) -> None:
        if self._led.lease is None or self._led.open_session(dpid, connection):
            return
        if self._survey.network.wants(dpid):
            self._survey.ask_for_links(dpid, connection)
        elif self._survey.is_leaving:
            self._survey.release(connection, bridges=False)
        elif self._led.desired is not None:
            self._reporter.unknown_switch(dpid)

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
        session = self._led.sessions.get(connection.id)
        if session is not None and session.connection is connection:
            session.take(now_ns, answer)
        elif isinstance(answer, ErrorReply) and not answer.denies_mastership:
            log.warning("OpenFlow error from %s: %s", connection.peer, answer.text)


# ── The process ─────────────────────────────────────────────────────────────────────────────────────


STOP_LIMIT_S = 1.5
_LOOK_S = 0.5
TURN_LIMIT_S = 5.0
"""The event loop hangs if it has not handled a tick for this long."""


class Launcher:
    """A running controller.

    os-ken's own manager cannot stop with native threads, because `run_apps` ends in an AttributeError.
    So the launcher replaces it. Every thread is a daemon or has a time limit, and the process ends
    within STOP_LIMIT_S of SIGTERM.
    """

    def __init__(
        self, listening: socket.socket, store_url: str, context: ssl.SSLContext | None, notifier: Notifier
    ) -> None:
        """With a `context`, switches must speak TLS."""
        self._notifier = notifier
        manager = AppManager.get_instance()
        manager.instantiate(Handshake)
        self._controller: Controller = manager.instantiate(Controller, store_url)
        self._listener = Listener(listening, context)
        self._failed = False
        self._stopping = threading.Event()
        self._controller.failed = self._fail

    def run(self) -> int:
        """Serve until SIGTERM, SIGINT or a bug. Returns the exit code.

        The caller must block `end_signals` before the first thread starts. This thread waits for
        them instead of handling them: a handler could run while the thread holds a lock, or in
        another thread.
        """
        self._controller.start()
        self._listener.start()
        threading.Thread(target=self._report_life, name="life", daemon=True).start()
        signal.sigwait(end_signals())
        log.info("stopping")
        self._stopping.set()
        self._notifier.stopping()
        # Each end of a connection or of the loop waits for room in a queue, whose loop may be busy or dead.
        ending = threading.Thread(target=self._end_loop, name="end", daemon=True)
        ending.start()
        ending.join(STOP_LIMIT_S / 3)
        self._controller.recorder.stop(STOP_LIMIT_S / 2)
        self._controller.leadership.stop(STOP_LIMIT_S / 6)
        return 1 if self._failed else 0

    def _report_life(self) -> None:
        """Report to systemd whether the event loop turns.

        A thread of its own does this. `signal.sigtimedwait` would let one thread wait and report, but after a stop
        of the whole process (SIGSTOP, a paused machine) it returns as if a signal had arrived.
        """
        is_ready = False
        while not self._stopping.wait(_LOOK_S):
            if time.monotonic() - self._controller.turned_s > TURN_LIMIT_S:
                continue
            if not is_ready:
                self._notifier.ready("listens for switches")
                is_ready = True
            self._notifier.alive()

    def _fail(self) -> None:
        """End the process. A thread calls this when one of its handlers has failed."""
        self._failed = True
        os.kill(os.getpid(), signal.SIGTERM)

    def _end_loop(self) -> None:
        self._controller.wind_down()
        self._listener.close(STOP_LIMIT_S / 3)
        if not self._failed:
            self._controller.stop()
