# SPDX-License-Identifier: Apache-2.0
"""A simulated network that follows the wall clock and writes the rows that controller and agents of a real one write.

The caller passes the time, so tests need no clock. Rows go to a recorder, so a locked store holds nothing up.

FCTs are simulated time. All other times are of the wall clock. A record says that its flow ended now and began
one FCT earlier, so figures by time also hold if simulated time passes slowly. The pace is

    simulated time ≤ wall clock − origin

If the machine is too slow, the origin moves: the lag beyond MAX_LAG_S is given up, and simulated time passes more
slowly than real time. The dilation factor says by how much (Gupta et al., "To infinity and beyond: time-warped network
emulation", NSDI 2006).
"""

import os
import queue
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sluice.controller.recorder import Recorder
from sluice.controller.reporting import Reporter
from sluice.controller.state import Desired
from sluice.hostagent.tcp import MOST_SHOWN
from sluice.policy.network.graph import Topology
from sluice.policy.schema.desired import Policy
from sluice.policy.units import PS_PER_MS, PS_PER_S, US_PER_S
from sluice.policy.wire.agents import Heartbeat, RunningFlow, SimulatorHeartbeat
from sluice.policy.workload.scenario import Scenario
from sluice.runs.live import PORT_AGENT, SIMULATOR_AGENT, controller
from sluice.runs.simulator_run import Texts, control_names, flow_rows, records
from sluice.simulator.flows import FlowSource
from sluice.simulator.live import LiveFabric
from sluice.store.flows import add_flows
from sluice.store.observed import put_agents

MAX_LAG_S = 0.1
"""A network that is late by less than this catches up, for example after another process had the CPU."""
WINDOW_S = 5.0
"""The dilation factor is of the last seconds of the wall clock."""


class Pace:
    """The pace of one simulated network, whose time begins at 0."""

    def __init__(self, now_s: float) -> None:
        self._origin_s = now_s
        self._reached: deque[tuple[float, float]] = deque([(now_s, 0.0)])
        """(wall clock, simulated seconds) of the last WINDOW_S, oldest first."""

    def due_ps(self, now_s: float) -> int:
        """Return the simulated time that should be reached by now."""
        return max(0, round((now_s - self._origin_s) * PS_PER_S))

    def reached(self, now_s: float, simulated_ps: int) -> None:
        """Take how far the network is now, and give up the lag beyond MAX_LAG_S."""
        simulated_s = simulated_ps / PS_PER_S
        lag_s = now_s - self._origin_s - simulated_s
        self._origin_s += max(0.0, lag_s - MAX_LAG_S)
        self._reached.append((now_s, simulated_s))
        while len(self._reached) > 2 and self._reached[1][0] <= now_s - WINDOW_S:
            self._reached.popleft()

    @property
    def dilation(self) -> float:
        """Wall-clock seconds for each simulated second, over about the last WINDOW_S; 1 is real time.

        A network that catches up is not faster than real time, so the factor is at least 1.
        """
        (then_s, simulated_then_s), (now_s, simulated_s) = self._reached[0], self._reached[-1]
        if simulated_s <= simulated_then_s:
            return 1.0
        return max(1.0, (now_s - then_s) / (simulated_s - simulated_then_s))


# ── Running flows ────────────────────────────────────────────────────────────────────────────────────


def running_flows(
    columns: Mapping[str, Any], topology: Topology, run_id: str, controls: Texts, zero_s: float
) -> dict[int, tuple[RunningFlow, ...]]:
    """Return the index of each sender → its first flows, from `LiveFabric.under_way`.

    `controls` has each flow's TCP_CONGESTION name, and `zero_s` is the epoch time at which simulated time was zero.
    The simulator counts what a flow has delivered only at its end, so its progress is unknown.
    """
    flows_of: dict[int, list[RunningFlow]] = {}
    for row, sender in enumerate(columns["src"].tolist()):
        flows = flows_of.setdefault(sender, [])
        if len(flows) == MOST_SHOWN:
            continue
        endless = not np.isnan(columns["until_s"][row])
        started_at, deadline_us = zero_s + float(columns["start_s"][row]), float(columns["deadline_us"][row])
        flows.append(
            RunningFlow(
                id=f"{run_id}/{columns['number'][row]}",
                dst=topology.hosts[columns["dst"][row]].name,
                label="",
                bytes=None if endless else int(columns["bytes"][row]),
                acked_bytes=None,
                started_at=started_at,
                deadline_at=None if endless or np.isnan(deadline_us) else started_at + deadline_us / US_PER_S,
                retransmissions=None,
                congestion_control=str(controls[row]),
                srtt_us=None,
            )
        )
    return {sender: tuple(flows) for sender, flows in flows_of.items()}


# ── The network ──────────────────────────────────────────────────────────────────────────────────────


STEP_PS = 20 * PS_PER_MS
"""The simulation stops at least this often, so that the policy's loop runs on time."""
EVENTS_PER_STEP = 100_000
"""About 20 ms of CPU time, so that a slow machine, too, looks for a new policy many times a second."""
RECORDS_S = 0.1
"""Between two deliveries of flow records. Fewer deliveries cost less."""
HEARTBEAT_S = 1.0


class Instant(NamedTuple):
    """A moment, by two clocks."""

    now_s: float
    """Of a clock that never jumps."""
    epoch_s: float
    """Seconds of the Unix epoch."""


class LiveNetwork:
    """The network of a scenario from the moment when it is made. `step` moves it on."""

    def __init__(
        self,
        scenario: Scenario,
        topology: Topology,
        run_id: str,
        recorder: Recorder,
        at: Instant,
        *,
        holds: bool = False,
    ) -> None:
        """With `holds`, no flow starts before `begin_traffic`."""
        self._scenario, self._topology, self._run_id = scenario, topology, run_id
        self._recorder = recorder
        self._desired: queue.SimpleQueue[Desired] = queue.SimpleQueue()
        self._fabric = LiveFabric(scenario, topology)
        self._controller = controller.SimulatedController(self._fabric, Reporter(recorder))
        self._source = None if holds else FlowSource(scenario, topology)
        self._counts = controller.HostCounts(len(topology.hosts))
        self._schemes = _Schemes(scenario.policy)
        self._next_number = 0
        self._pace = Pace(at.now_s)
        self._began_s = self._records_due_s = self._heartbeat_due_s = at.now_s

    def want(self, desired: Desired) -> None:
        """Change the network to this at the next step. Any thread may call it."""
        self._desired.put(desired)

    def begin_traffic(self, seconds: float) -> None:
        """Begin the scenario's schedule now. It has the flows that start within this time."""
        now_s = self._fabric.now_ps / PS_PER_S
        self._source = FlowSource(self._scenario, self._topology, now_s, seconds)

    def end_traffic(self) -> None:
        """Start no more flows."""
        self._source = None

    # ── Time ────────────────────────────────────────────────────────────────────────────────────

    def step(self, at: Instant) -> bool:
        """Move on towards the simulated time that is due. Return whether the network has reached it."""
        while not self._desired.empty():
            self._controller.adopt(self._desired.get())
            force = self._controller.in_force
            if force is not None:
                self._schemes.change(self._next_number, force.policy)
        due_ps = max(self._pace.due_ps(at.now_s), self._fabric.now_ps)
        until_ps = min(due_ps, self._fabric.now_ps + STEP_PS)
        for batch in self._source.before(until_ps / PS_PER_S) if self._source else ():
            self._fabric.add([batch])
            self._counts.add_started(batch)
            self._next_number = batch.first + len(batch)
        self._fabric.advance(until_ps, EVENTS_PER_STEP)
        self._pace.reached(at.now_s, self._fabric.now_ps)
        self._controller.advance(self._fabric.now_ps)
        if at.now_s >= self._records_due_s:
            self._records_due_s = at.now_s + RECORDS_S
            self._record(self._fabric.ended(), at.epoch_s)
        if at.now_s >= self._heartbeat_due_s:
            self._heartbeat_due_s = at.now_s + HEARTBEAT_S
            self._report(at)
        return self._fabric.now_ps >= due_ps

    def finish(self, at: Instant) -> None:
        """Record the active flows as unfinished, and the last counters."""
        self._record(self._fabric.ended(), at.epoch_s)
        self._record(self._fabric.unfinished(), at.epoch_s)
        self._report(at)

    # ── Flows ───────────────────────────────────────────────────────────────────────────────────

    def _record(self, flows: Mapping[str, Any], epoch_s: float) -> None:
        """Hand over the records of flows that have ended."""
        if not len(flows["number"]):
            return
        self._counts.add_ended(flows)
        lasted_s = flows["fct_ps"] / PS_PER_S
        schemes, controls = self._schemes.of(flows["number"])
        rows = flow_rows(
            {**flows, "start_s": epoch_s - lasted_s},
            self._topology,
            self._run_id,
            size_scale=self._scenario.size_scale,
            schemes=schemes,
            controls=control_names(flows["control"], controls),
        )
        self._recorder.record_rows(add_flows, records(rows))

    # ── Reports ─────────────────────────────────────────────────────────────────────────────────

    def _report(self, at: Instant) -> None:
        """Write what a controller and agents write each second."""
        elapsed_s, simulated_s = at.now_s - self._began_s, self._fabric.now_ps / PS_PER_S
        beat = SimulatorHeartbeat(os.getpid(), elapsed_s, simulated_s, round(self._pace.dilation, 3))
        beats: dict[str, Heartbeat] = {SIMULATOR_AGENT: beat}
        force = self._controller.in_force
        if force is not None:
            counters = self._fabric.queue_counters()
            self._controller.report_presence()
            self._controller.sample_queues(counters)
            beats[PORT_AGENT] = controller.port_heartbeat(self._topology, counters, force, at.now_s)
            columns, zero_s = self._fabric.under_way(), at.epoch_s - simulated_s
            _, controls = self._schemes.of(columns["number"])
            running = running_flows(columns, self._topology, self._run_id, controls, zero_s)
            beats.update(controller.host_heartbeats(self._topology, self._counts, force, running))
        self._recorder.record(put_agents, beats)


class _Schemes:
    """Which scheme each flow started under, by its number."""

    def __init__(self, policy: Policy) -> None:
        self._first = np.zeros(1, np.int64)
        self._names = np.asarray([_names(policy)])

    def change(self, number: int, policy: Policy) -> None:
        """Flows from this number on start under another policy."""
        self._first = np.append(self._first, number)
        self._names = np.append(self._names, [_names(policy)], axis=0)

    def of(self, numbers: npt.NDArray[np.uint64]) -> tuple[Texts, Texts]:
        """Return each flow's scheme and TCP_CONGESTION name."""
        rows = np.searchsorted(self._first, numbers.astype(np.int64), side="right") - 1
        return self._names[rows, 0], self._names[rows, 1]


def _names(policy: Policy) -> tuple[str, str]:
    return policy.scheme, policy.definition.congestion_control
