# SPDX-License-Identifier: Apache-2.0
"""Runs one scenario on the fabric: adds flows as they are drawn, adjusts the policy at its interval, passes on results.

Memory holds the active flows and one batch of the schedule. Nothing here reads a clock, so the same scenario and
seed give the same results. At each interval, the controller's part reads the ports' counters and installs queue maps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import InitVar, dataclass, field

import numpy as np

from sluice.policy.errors import EnvironmentLacking, SluiceError
from sluice.policy.network.graph import INGRESS_GROUPS, Topology
from sluice.policy.schema.desired import host_queue_map, queue_map
from sluice.policy.schema.field_kinds import name_port
from sluice.policy.thresholds.adaptation import Adaptation, PortCounters
from sluice.policy.units import PS_PER_MS, PS_PER_NS, PS_PER_S
from sluice.policy.workload.flows import FlowBatch
from sluice.policy.workload.listed_flows import ExplicitWorkload
from sluice.policy.workload.scenario import SPRAYS, Scenario, TcpVariant, scheduled_batches
from sluice.simulator import _fabric
from sluice.simulator.division import Division, divide
from sluice.simulator.faults import NEVER_PS, faults_of
from sluice.simulator.flows import Followers, Ledger, fabric_columns, followers_of
from sluice.simulator.network import add_transports, make_fabric, port_maker
from sluice.simulator.taps import Columns, SimulationProgress, Taps, ThresholdsMoved, no_results
from sluice.simulator.trace import Trace

SLICE_EVENTS = 1_000_000
"""Events between two checks for ended flows and for Ctrl-C."""


@dataclass
class Simulation:
    """A scenario laid out on `fabric`, the C++ model of the network."""

    scenario: Scenario
    topology: Topology
    taps: Taps
    labels: dict[int, str] = field(default_factory=dict)
    """By flow number. The caller may forget those of flows that have ended."""
    known_division: InitVar[Division | None] = None
    """None: it is not known yet, and `divide` returns it."""
    _ledger: Ledger = field(default_factory=Ledger)
    _scheduled: int = 0
    _ended: int = 0
    _followers: Followers | None = None
    """None: each flow starts at a time of its own."""

    def __post_init__(self, known_division: Division | None) -> None:
        scenario, policy = self.scenario, self.scenario.policy
        self.division = known_division or divide(scenario, self.topology)
        self._loop = PolicyLoop(scenario, self.topology, self.taps.thresholds, self.division)
        self.fabric, layout = self._loop.fabric, self._loop.layout
        self._port_names = np.asarray([*layout.host, *layout.port])
        self._transports = add_transports(self.fabric, scenario, policy)
        self._trace = Trace([*layout.host, *layout.port])
        sampled = [name for name in layout.port if name_port(scenario.simulator.sampled_ports, name)]
        self._sampled_ports, self._sampled_rows = np.asarray(sampled), [layout.port[name] for name in sampled]

    def totals(self) -> dict[str, float | int]:
        """Totals of the run so far."""
        return {
            "simulated_s": self.fabric.now_ps / PS_PER_S,
            "packet_hops": self.fabric.hops,
            "events": self.fabric.events,
            "packets_sent": self.fabric.packets_sent,
            "packets_dropped": self.fabric.packets_dropped,
        }

    def drops(self) -> dict[str, int]:
        """Return the packets that each port has dropped so far. A host's own port has the name of the host."""
        dropped = self.fabric.port_statistics()[:, 3].tolist()
        return dict(zip(self._port_names.tolist(), dropped, strict=True))

    def paths(self, flows: Columns) -> Columns | None:
        """Return the names of the ports by which switches send data of these flows now: `port`, flow after flow, and
        `begin` (n+1), where those of each begin. None if packets of a flow take several paths."""
        if self.scenario.simulator.multipath in SPRAYS:
            return None
        found = self.fabric.paths(*(flows[name] for name in ("number", "src", "dst")))
        return {"begin": found["begin"], "port": self._port_names[found["port"]]}

    def run(self) -> None:
        """Run until the last flow ends, the grace period after the last start ends, or the scenario's `until`."""
        try:
            self._run_all()
        except _fabric.FlowTooLong as too_long:
            payload_bytes = (self.scenario.simulator.tcp or TcpVariant()).payload_bytes
            raise SluiceError(
                f"workload: {too_long} of simulator.tcp.payload = {payload_bytes}B; set smaller flows, an earlier "
                "end of an endless flow, or a larger payload"
            ) from None

    def _run_all(self) -> None:
        rng = np.random.default_rng(self.scenario.seed)
        self._followers = followers_of(self.scenario, self.topology, rng)
        batches: Iterator[FlowBatch] = iter(())
        if self._followers is None:
            is_listed = isinstance(self.scenario.workload, ExplicitWorkload)
            until_s = None if is_listed else self.scenario.simulator.until_s
            batches = scheduled_batches(self.scenario, self.topology, rng, until_s or math.inf)
        clock = _Clock(self.scenario)
        self._loop.report_start()
        while True:
            more_from_ps = self._top_up(batches, clock)
            until_ps = min(clock.next_ps, more_from_ps, self._loop.next_ps)
            reached = self._advance(until_ps)
            self._hand_out(self.fabric.take_results())
            if self.scenario.simulator.traced_ports or self.scenario.simulator.traced_flows:
                self.taps.trace(self._trace.take(self.fabric.take_trace(), self.fabric.now_ps))
            self.taps.report(SimulationProgress(self.fabric.now_ps / PS_PER_S, self._ended, self._scheduled))
            is_over = more_from_ps == NEVER_PS and self._ended == self._scheduled
            if is_over and (self._followers is None or self._followers.next_ps is None):
                return
            if reached and not self._on_time(clock, until_ps):
                break
        # The flows that have not ended, started or not.
        if self._followers is not None:
            never, self._followers = self._followers.never(self.fabric.now_ps), None
            if never is not None:
                self._note(never)
        for batch in batches:
            self._note(batch)
        self._hand_out(self.fabric.unfinished())
        self._hand_out(no_results(self._ledger.numbers))

    def _advance(self, until_ps: int) -> bool:
        """Run until then, but for at most a slice of events; return whether the time is reached."""
        try:
            return self.fabric.run(until_ps, SLICE_EVENTS, self._followers is not None)
        except _fabric.ThreadsLacking as lacking:
            raise EnvironmentLacking(
                f"simulator.threads = {self.scenario.simulator.threads}: {lacking}; set fewer threads, or raise "
                "the limit of threads (ulimit -u) or of memory (ulimit -v)"
            ) from None

    def _top_up(self, batches: Iterator[FlowBatch], clock: _Clock) -> int:
        """Add the next batch if it is due; return when the next one is, NEVER_PS if none is left."""
        if self._followers is not None:
            return self._top_up_followers(self._followers, clock)
        while clock.more and self.fabric.now_ps >= clock.drawn_until_ps:
            batch = next(batches, None)
            if batch is None:
                clock.more = False
                clock.end_ps = clock.last_ps + round(self.scenario.grace_s * PS_PER_S)
                break
            if len(batch.start_s):
                self._add(batch, clock)
        return clock.drawn_until_ps if clock.more else NEVER_PS

    def _top_up_followers(self, followers: Followers, clock: _Clock) -> int:
        batch = followers.begin(self.fabric.now_ps)
        if batch is not None:
            self._add(batch, clock)
        next_ps = followers.next_ps
        if next_ps is not None:
            clock.end_ps = NEVER_PS
            return next_ps
        clock.end_ps = clock.last_ps + round(self.scenario.grace_s * PS_PER_S)
        return NEVER_PS

    def _add(self, batch: FlowBatch, clock: _Clock) -> None:
        self._note(batch)
        self.fabric.add_flows(**fabric_columns(batch, self._transports))
        last_s = np.nanmax(np.concatenate([batch.start_s[-1:], batch.until_s]))
        clock.drawn_until_ps = int(batch.start_s[-1] * PS_PER_S)
        clock.last_ps = max(clock.last_ps, round(last_s * PS_PER_S))

    def _note(self, batch: FlowBatch) -> None:
        self._ledger.add(batch)
        self.labels.update(
            (number, label) for number, label in enumerate(batch.labels, start=batch.first) if label
        )
        self._scheduled += len(batch.start_s)

    def _on_time(self, clock: _Clock, now_ps: int) -> bool:
        """Do what is due now. False if the run's time is over."""
        if now_ps >= min(clock.end_ps, clock.until_ps):
            return False
        self._loop.act(now_ps)
        if now_ps >= clock.sample_ps:
            self.taps.senders(now_ps / PS_PER_S, self.fabric.senders())
            clock.sample_ps += clock.sample_every_ps
        if now_ps >= clock.ports_ps:
            self.taps.ports(now_ps / PS_PER_S, self._port_samples())
            clock.ports_ps += clock.ports_every_ps
        return True

    def _port_samples(self) -> Columns:
        sampled = self.fabric.port_statistics()[self._sampled_rows]
        packets, sent_bytes, marked, dropped, _, waiting_bytes = sampled.T
        return {
            "port": self._sampled_ports,
            "waiting_bytes": waiting_bytes,
            "sent_bytes": sent_bytes,
            "sent_packets": packets,
            "marked_packets": marked,
            "dropped_packets": dropped,
        }

    def _hand_out(self, results: Columns) -> None:
        if len(results["id"]):
            self._ended += len(results["id"])
            if self._followers is not None:
                self._followers.end(results["id"].tolist(), self.fabric.now_ps)
            self.taps.flows(self._ledger.joined(results))


class _Clock:
    """The times at which something is due next."""

    def __init__(self, scenario: Scenario) -> None:
        self.sample_every_ps = (scenario.sample_ms or 0) * PS_PER_MS
        self.sample_ps = self.sample_every_ps if scenario.sample_ms else NEVER_PS
        self.ports_every_ps = (scenario.simulator.sample_ports_ns or 0) * PS_PER_NS
        self.ports_ps = self.ports_every_ps or NEVER_PS
        self.more = True
        self.drawn_until_ps = 0
        self.last_ps = 0
        self.end_ps = NEVER_PS
        """When the grace period ends."""
        until_s = scenario.simulator.until_s
        self.until_ps = NEVER_PS if until_s is None else round(until_s * PS_PER_S)

    @property
    def next_ps(self) -> int:
        return min(self.sample_ps, self.ports_ps, self.end_ps, self.until_ps)


# ── Adaptation ───────────────────────────────────────────────────────────────────────────────────────


class PolicyLoop:
    """The network of a scenario with one policy on all ports, and what changes in it: thresholds adapt, links fail and
    come back. Hosts' own ports keep their first thresholds."""

    def __init__(
        self,
        scenario: Scenario,
        topology: Topology,
        moved: Callable[[ThresholdsMoved], None],
        division: Division | None = None,
    ) -> None:
        policy, make_port = scenario.policy, port_maker(scenario.policy, scenario.simulator)
        fabric, layout = self.fabric, self.layout = make_fabric(scenario, topology, make_port, division)
        self._policy, self._moved = policy, moved
        self._ports = topology.ports
        self._rows = np.asarray([layout.port[port.id] for port in topology.ports])
        start = [policy.fixed_at(port.id) or policy.thresholds for port in topology.ports]
        self._adaptation = Adaptation(policy, [port.rate_bps for port in topology.ports], start)
        self._adaptation.held = np.asarray(
            [policy.override_of(port.id) is not None for port in topology.ports], bool
        )
        self._adaptation.observe(0, PortCounters.zero(len(topology.ports)))
        queues = queue_map(policy, policy.thresholds)
        for number in layout.host.values():
            fabric.set_queue_of(number, host_queue_map(policy))
        for number in layout.port.values():
            fabric.set_queue_of(number, queues)
        for row, port in enumerate(topology.ports):
            if start[row] != policy.thresholds:
                fabric.set_queue_of(layout.port[port.id], queue_map(policy, start[row]))
        self._adapt_every_ps = policy.interval_ms * PS_PER_MS
        self._adapt_ps = self._adapt_every_ps if policy.definition.threshold_rule.adapts else NEVER_PS
        self._faults = faults_of(scenario, layout, fabric, make_port)

    @property
    def next_ps(self) -> int:
        """When something changes next."""
        return min(self._adapt_ps, self._faults.next_ps)

    def act(self, now_ps: int) -> None:
        """Do what is due."""
        self._faults.apply(now_ps)
        if now_ps >= self._adapt_ps:
            self._adjust(now_ps)
            self._adapt_ps += self._adapt_every_ps

    def report_start(self) -> None:
        """Report each port's first thresholds."""
        for row, port in enumerate(self._ports):
            self._moved(ThresholdsMoved(0.0, port.id, self._adaptation.thresholds(row), 0))

    def _adjust(self, now_ps: int) -> None:
        """Adjust all thresholds by the counters that a controller would read by OpenFlow."""
        by_tag = self.fabric.tag_counters()[self._rows].astype(np.int64)
        ended = self.fabric.end_counters(INGRESS_GROUPS)[self._rows].astype(np.int64)
        counters = PortCounters(by_tag[:, :, 0], by_tag[:, :, 1], ended)
        self._adaptation.observe(now_ps // PS_PER_NS, counters)
        moved = np.flatnonzero(self._adaptation.adjust())
        flows = self._adaptation.flows if moved.size else ()
        for row in map(int, moved):
            port_id, thresholds = self._ports[row].id, self._adaptation.thresholds(row)
            self.fabric.set_queue_of(self.layout.port[port_id], queue_map(self._policy, thresholds))
            self._moved(ThresholdsMoved(now_ps / PS_PER_S, port_id, thresholds, int(flows[row])))
