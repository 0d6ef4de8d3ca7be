# SPDX-License-Identifier: Apache-2.0
"""The controller's side of the store: reads the desired state, writes what has been observed.

It does both only while the controller leads (`leadership.py`), because the store belongs to the
leader. The store itself refuses the rows of a controller that has lost the lease and does not know it yet
(`sluice.store.lease.fenced`).

One thread does both, so a locked or absent store never holds up a switch. Rows wait in order until
the store takes them. When too many wait, the oldest are dropped. An outage is logged once when it
begins and once when it ends. Rows for one function that wait together are written together.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from sluice.controller.leadership import NAME
from sluice.controller.network import Description, Kind
from sluice.controller.state import Desired
from sluice.policy.errors import EnvironmentLacking, FieldError
from sluice.policy.network.description import DeclaredPort
from sluice.policy.network.graph import Topology
from sluice.policy.policing.urgency import UrgencyReport
from sluice.policy.schema.desired import Policy
from sluice.policy.units import MSS_BYTES
from sluice.policy.wire.agents import PortHeartbeat, bridging_switches, programmed_ports, reported_columns
from sluice.store import desired, lease, observed
from sluice.store.desired import PolicyVersion
from sluice.store.engine import open_store
from sluice.store.failures import is_outage
from sluice.store.observed import all_sanctions

# ── Rows that wait ──────────────────────────────────────────────────────────────────────────────────


P = ParamSpec("P")
Row = TypeVar("Row")


@dataclass
class Term:
    """A time during which this controller leads. It may take its own lease again with a greater generation."""

    generation: int
    ended: bool = False


@dataclass
class Write:
    """A call of a function that writes, and the term in which it was recorded."""

    term: Term
    function: Callable[..., object]
    args: tuple[object, ...] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict)
    rows: list[Any] | None = None
    """The only argument, if rows of a later write may join it."""

    def __call__(self, engine: Engine) -> None:
        args = self.args if self.rows is None else (self.rows,)
        self.function(engine, *args, **self.kwargs)

    def __str__(self) -> str:
        name = getattr(self.function, "__name__", self.function)
        return f"{name}{self.args} {self.kwargs}" if self.rows is None else f"{name}({self.rows})"

    def absorb(self, later: Write) -> bool:
        """Write the rows of a later write together with these. Returns whether that is possible."""
        same = later.term is self.term and later.function is self.function
        if not same or self.rows is None or later.rows is None:
            return False
        self.rows.extend(later.rows)
        return True


# ── The recorder ────────────────────────────────────────────────────────────────────────────────────


log = logging.getLogger(__name__)

POLL_S = 0.2
TOPOLOGY_POLL_S = 2.0
URGENCY_POLL_S = 0.5
REPORTS_POLL_S = 0.5
WATCH_ONLY = Policy.from_document({"scheme": "sluice", "acts_at": []})
"""The first policy of a network that Sluice did not make."""
MAX_WAITING = 20_000
"""Writes that wait for the store; beyond this, the oldest are dropped."""
ROUND_S = 0.02
"""At least this long between two rounds of writing, so that rows of one kind are written together.
"""


class Recorder:
    """Delivers the desired state to `on_desired` and `on_network`, and writes rows in order."""

    def __init__(
        self,
        store_url: str,
        on_desired: Callable[[Desired], None],
        on_network: Callable[[Description, Topology | None], None] = lambda description, topology: None,
        on_agents: Callable[[Mapping[str, str]], None] = lambda agents: None,
        on_urgency: Callable[[Mapping[str, UrgencyReport]], None] = lambda reports: None,
        on_reports: Callable[[Mapping[str, PortHeartbeat]], None] = lambda beats: None,
        on_columns: Callable[[Mapping[str, DeclaredPort]], None] = lambda columns: None,
    ) -> None:
        self._url, self._on_desired, self._on_network = store_url, on_desired, on_network
        self._on_agents, self._on_urgency, self._on_reports = on_agents, on_urgency, on_reports
        self._on_columns = on_columns
        self._agents: Mapping[str, str] = {}
        """The names of agents by MAC address that were delivered last."""
        self._engine: Engine | None = None
        self._has_opened = False
        """Whether there was a store: one that was deleted since must not come back empty."""
        self._incoming: queue.SimpleQueue[Write | None] = queue.SimpleQueue()
        """None only wakes the thread."""
        self._waiting: deque[Write] = deque(maxlen=MAX_WAITING)
        self._topology: Topology | None = None
        self._network: tuple[int, str | None] | None = None
        """Version of the description, and kind of the network in the store, that were delivered last."""
        self._burst_bytes = MSS_BYTES
        self._delivered: tuple[int, Topology, int] | None = None
        """Policy version, topology and burst that were delivered last."""
        self._last_warning = ""
        """The latest warning about what the store holds."""
        self._outage = ""
        """Why the store could not be used the last time; empty if it could."""
        self._stopping = threading.Event()
        self._term = Term(0, ended=True)
        self._begins = threading.Event()
        """The controller leads since a moment ago: deliver the desired state whether it is new or not."""
        self._programmed: frozenset[str] | None = None
        self._bridging: frozenset[str] = frozenset()
        self._tags_urgency = False
        """Whether hosts of the newest policy write urgency."""
        self._agent_of: dict[str, str] = {}
        """Switch that forwards by itself → its port agent."""
        self._poll_due_s = 0.0
        self._due_s: dict[str, float] = {}
        """What else is read again and again → when it is due."""
        self._thread = threading.Thread(target=self._loop, name="store", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Write what is waiting, if the store permits it within the time."""
        self._stopping.set()
        self._incoming.put(None)
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            log.warning("the store did not take the last rows within %.1f s", timeout_s)

    def record(
        self, write: Callable[Concatenate[Engine, P], object], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        """Call `write(engine, *args, **kwargs)`, repeatedly until the store takes it."""
        self._enqueue(Write(self._term, write, args, kwargs))

    def record_rows(self, write: Callable[[Engine, list[Row]], object], rows: Sequence[Row]) -> None:
        """Call `write(engine, rows)`; consecutive rows for one function are written together."""
        self._enqueue(Write(self._term, write, rows=list(rows)))

    def _enqueue(self, write: Write) -> None:
        if not write.term.ended:
            self._incoming.put(write)

    def put_topology(self, topology: Topology) -> None:
        """Store a topology and deliver it at once. A discovered one takes the place of no network that was made."""
        self.record(desired.put_topology, topology, replaces_made=topology.kind != Kind.DISCOVERED)
        self._poll_due_s = self._due_s["topology"] = 0.0

    def lead(self, generation: int) -> None:
        """Deliver the desired state from now on, with the thresholds learned until now.

        `generation` of the lease that this controller holds. What it recorded under its own last one stays.
        """
        if self._term.ended:
            self._term = Term(generation)
        self._term.generation = generation
        self._begins.set()
        self._incoming.put(None)

    def follow(self) -> None:
        """Deliver nothing and drop what is waiting: the store belongs to another controller."""
        self._term.ended = True

    # ── The thread ──────────────────────────────────────────────────────────────────────────────

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self._receive(max(0.0, self._poll_due_s - time.monotonic()))
            self._attempt()
            self._stopping.wait(ROUND_S)
        self._receive(0.0)
        self._attempt()

    def _receive(self, timeout_s: float) -> None:
        """Take all recorded writes; wait at most `timeout_s` for the first one."""
        try:
            item = self._incoming.get(timeout=timeout_s) if timeout_s else self._incoming.get_nowait()
            while True:
                if item is not None and not (self._waiting and self._waiting[-1].absorb(item)):
                    self._waiting.append(item)
                item = self._incoming.get_nowait()
        except queue.Empty:
            return

    def _attempt(self) -> None:
        try:
            if self._engine is None:
                self._engine = open_store(self._url, create=not self._has_opened)
                self._has_opened = True
            engine = self._engine
            self._write(engine)
            if time.monotonic() >= self._poll_due_s or self._begins.is_set():
                self._poll_due_s = time.monotonic() + POLL_S
                if not (term := self._term).ended:
                    self._poll(engine, term.generation)
        except lease.Deposed as deposed:  # the lease's own thread finds out soon, and ends the term
            self._warn_once(str(deposed))
            self._stopping.wait(POLL_S)
        except SQLAlchemyError as error:
            if not is_outage(error):
                raise
            self._drop_engine(str(getattr(error, "orig", error)))
        except EnvironmentLacking as lacking:  # another version has changed the store meanwhile
            self._drop_engine(str(lacking))
        else:
            if self._outage:
                log.info("the store is back")
            self._outage = ""

    def _drop_engine(self, reason: str) -> None:
        if self._outage != reason:
            self._outage = reason
            log.warning("cannot use the store, trying again: %s", self._outage)
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None
        self._poll_due_s = time.monotonic() + POLL_S
        self._stopping.wait(POLL_S)

    def _write(self, engine: Engine) -> None:
        while self._waiting:
            oldest = self._waiting[0]
            try:
                if not oldest.term.ended:
                    oldest(lease.fenced(engine, NAME, oldest.term.generation))
            except SQLAlchemyError as error:
                if is_outage(error):
                    raise
                log.exception("dropped a row that the store will never take: %s", oldest)
            self._waiting.popleft()

    def _warn_once(self, text: str) -> None:
        if text != self._last_warning:
            log.warning("%s", text)
            self._last_warning = text

    # ── Desired state ───────────────────────────────────────────────────────────────────────────

    def _poll(self, engine: Engine, generation: int) -> None:
        """Deliver what is new, with the generation of the lease under which it was read."""
        if self._begins.is_set():
            self._begins.clear()
            self._topology, self._delivered, self._network = None, None, None
            self._agents = {}
        version = desired.current_version(engine)
        topology = self._current_topology(engine, generation)
        if topology is None:
            self._warn_once("no network in the store yet: looking for one")
        elif version == 0 and topology.learns:
            with suppress(desired.Superseded):  # somebody has just chosen one
                fenced = lease.fenced(engine, NAME, generation)
                desired.put_policy(fenced, WATCH_ONLY, author="controller", replaces=version)
        elif version == 0:
            self._warn_once("no policy in the store yet: waiting for one")
        elif (version, topology, self._burst_bytes) != self._delivered or self._ports_changed(
            engine, topology
        ):
            self._deliver(engine, topology, generation)
        if self._tags_urgency and self._is_due("urgency", URGENCY_POLL_S):
            self._on_urgency(observed.urgency_reports(engine))
        if self._agent_of and self._is_due("reports", REPORTS_POLL_S):
            beats = observed.port_reports(engine, set(self._agent_of.values()))
            self._on_reports({name: beats[agent] for name, agent in self._agent_of.items() if agent in beats})

    def _ports_changed(self, engine: Engine, topology: Topology) -> bool:
        """Whether port agents report other ports than before."""
        is_due = topology.learns and self._is_due("ports", TOPOLOGY_POLL_S)
        return is_due and self._reported(engine, topology) != (self._programmed, self._bridging)

    def _is_due(self, what: str, period_s: float) -> bool:
        """Whether this is due. If it is, it is due again after the period."""
        now_s = time.monotonic()
        is_due = now_s >= self._due_s.get(what, 0.0)
        if is_due:
            self._due_s[what] = now_s + period_s
        return is_due

    def _current_topology(self, engine: Engine, generation: int) -> Topology | None:
        if self._topology is None:
            self._due_s["topology"] = 0.0
        if self._is_due("topology", TOPOLOGY_POLL_S):
            topology = desired.current_topology(engine)
            self._deliver_network(engine, topology, generation)
            agents = observed.agents_by_mac(engine)
            if agents != self._agents:
                self._agents = agents
                self._on_agents(agents)
            # It only grows: a host whose agent is gone still sends in its bursts.
            self._burst_bytes = max(self._burst_bytes, observed.largest_tag_burst(engine) or 0)
            return topology
        return self._topology

    def _deliver_network(self, engine: Engine, topology: Topology | None, generation: int) -> None:
        """Deliver the description if there is another one, or for the first time that there is none.

        Deliver it again if the network in the store is of another kind: one that a testbed has made is not discovered.
        """
        delivers = observed.network_version(engine), topology.kind if topology is not None else None
        if delivers == self._network:
            return
        newest = observed.current_network(engine)
        try:
            network = newest.network if newest is not None else None
            withdrawn = newest is not None and network is None
        except FieldError as error:
            self._warn_once(f"the description of the network is not valid: {error}. The one before it stays")
            return
        self._network = delivers
        self._on_network(Description(network, withdrawn, generation), topology)

    def _deliver(self, engine: Engine, topology: Topology, generation: int) -> None:
        try:
            newest = desired.current_policy(engine)
        except FieldError as error:
            self._warn_once(f"the newest policy in the store is not valid: {error}. The one before it stays")
            return
        if newest is None:
            return
        learned = {
            port: change.thresholds_bytes
            for port, change in observed.latest_thresholds(engine).items()
            if self._stays_in_force(engine, newest, port, change)
        }
        self._topology, self._last_warning = topology, ""
        self._tags_urgency = newest.policy.definition.tags_deadlines
        self._agent_of = {switch.name: agent for switch in topology.switches if (agent := switch.port_agent)}
        self._programmed, self._bridging = self._reported(engine, topology)
        self._delivered = newest.version, topology, self._burst_bytes
        offences = {sanction.port: sanction.offences for sanction in all_sanctions(engine)}
        self._on_desired(
            Desired(
                topology,
                newest.version,
                newest.policy,
                learned,
                offences,
                self._programmed,
                self._bridging,
                self._burst_bytes,
                generation,
            )
        )

    def _reported(self, engine: Engine, topology: Topology) -> tuple[frozenset[str] | None, frozenset[str]]:
        """Return the ports that port agents report, and the switches that keep their own forwarding.

        Deliver the VLANs that they report. A testbed starts its port agent before its switches, and its
        switches have no VLANs.
        """
        if not topology.learns:
            return None, frozenset()
        beats = [row.heartbeat for row in observed.all_agents(engine)]
        self._on_columns(reported_columns(beats))
        return programmed_ports(beats), bridging_switches(beats)

    def _stays_in_force(
        self, engine: Engine, newest: PolicyVersion, port: str, change: observed.ThresholdChange
    ) -> bool:
        """Whether thresholds that an earlier controller has recorded stay in force.

        They do if they belong to the newest version. At a frozen port they also do if they belong
        to an earlier version with the same scheme.
        """
        if change.policy_version == newest.version:
            return True
        if not newest.policy.is_frozen(port):
            return False
        before = desired.policy_version(engine, change.policy_version)
        return before is not None and newest.policy.has_levels_of(before.policy)
