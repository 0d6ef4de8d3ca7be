# SPDX-License-Identifier: Apache-2.0
"""The parts of controller and agents in a simulated network.

`sluice.controller.state` decides, and the fabric carries it out at once. The states take the time of the simulation,
because the traffic that they adapt to passes in it. Rows carry the time of the wall clock, as those of a real
controller. Heartbeats are those of hosts, of the ports and of the simulator itself.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from sluice.controller import state as states
from sluice.controller.openflow.counters import CounterReply, QueueCounts
from sluice.controller.reporting import Reporter
from sluice.controller.rules import SwitchRules
from sluice.controller.state import Desired, SwitchState
from sluice.policy.errors import FieldError
from sluice.policy.network.graph import Topology
from sluice.policy.schema.desired import queue_map
from sluice.policy.units import PS_PER_NS
from sluice.policy.wire import agents
from sluice.policy.workload.flows import FlowBatch
from sluice.simulator.live import Counters, LiveFabric
from sluice.simulator.taps import OUTCOMES

log = logging.getLogger(__name__)


class _Counted(NamedTuple):
    """The fabric's counters at one time."""

    at_ns: int
    carried: Counters
    """Packets and bytes by port, kind and tag."""
    completed: Counters
    """Completed flows by port, group of ingress ports and bucket."""


_CARRIED = 2
"""The first columns of `LiveFabric.tag_counters`: packets and bytes."""
_PACKETS_SENT, _BYTES_SENT = 0, 1
"""Columns of `LiveFabric.queue_counters`."""


class SimulatedController:
    """Keeps every simulated switch at the desired policy."""

    def __init__(self, fabric: LiveFabric, reporter: Reporter) -> None:
        self._fabric, self._reporter = fabric, reporter
        self.in_force: Desired | None = None
        """What ports and hosts carry out; None before the first policy from the store."""
        self._states: dict[str, SwitchState] = {}
        self._dpids: dict[str, int] = {}
        self._rows: dict[str, list[int]] = {}
        """Switch → rows of its ports in the fabric's counters."""
        self._applied_version = 0
        self._counted = self._count(-1)

    # ── The desired state ───────────────────────────────────────────────────────────────────────

    def adopt(self, desired: Desired) -> None:
        """Change hosts and ports to this policy. If the simulator refuses it, the one before it stays in force."""
        try:
            self._fabric.apply(desired.policy)
        except FieldError as error:
            log.error("policy version %d stays unapplied: %s", desired.version, error)
            self._reporter.refused(desired, str(error))
            return
        if self.in_force is None:
            topology = desired.topology
            row_of = {port.id: row for row, port in enumerate(topology.ports)}
            for turn, switch in enumerate(topology.switches):
                state = SwitchState(switch.name, desired, phase=turn / len(topology.switches))
                self._states[switch.name], self._dpids[switch.name] = state, switch.dpid
                self._rows[switch.name] = [row_of[port.id] for port in topology.ports_of[switch.name]]
                self._reporter.connected(switch.dpid, switch.name)
        for state in self._states.values():
            state.want(desired)
        self.in_force = desired
        self._reporter.idle_overrides(desired)

    # ── Operations ──────────────────────────────────────────────────────────────────────────────

    def advance(self, now_ps: int) -> None:
        """Carry out whatever is due at this simulated time. Report, once for each version, that every switch
        implements it."""
        now_ns = now_ps // PS_PER_NS
        for state in self._states.values():
            while (operation := state.next_operation(now_ns)) is not None:
                self._carry_out(state, operation, now_ns)
        desired = self.in_force
        if desired is None or desired.version == self._applied_version:
            return
        if all(state.version == desired.version for state in self._states.values()):
            self._applied_version = desired.version
            self._reporter.applied(desired, len(self._states))

    def _carry_out(self, state: SwitchState, operation: states.Operation, now_ns: int) -> None:
        """Simulated hosts send true tags, and queues are sampled by the wall clock, so other polls need no answer."""
        match operation:
            case states.ReadRules():
                state.rules_read(SwitchRules())
            case states.Change():
                assert self.in_force is not None
                news = state.applied()
                for port in news:
                    self._fabric.map_queues(port.port, queue_map(self.in_force.policy, port.thresholds_bytes))
                self._reporter.thresholds(news)
                dpid = self._dpids[state.name]
                if self._reporter.recorded_version(dpid) != state.version:
                    self._reporter.switch(dpid, state.name, connected=True, version=state.version)
            case states.CARRIED:
                state.observe_carried(self._counts(state, self._at(now_ns).carried))
            case states.COMPLETED:
                state.observe_completed(now_ns, self._counts(state, self._at(now_ns).completed))

    def _at(self, now_ns: int) -> _Counted:
        if now_ns != self._counted.at_ns:
            self._counted = self._count(now_ns)
        return self._counted

    def _count(self, now_ns: int) -> _Counted:
        carried = self._fabric.tag_counters()[:, :, :_CARRIED].transpose(0, 2, 1)
        return _Counted(now_ns, carried, self._fabric.end_counters())

    def _counts(self, state: SwitchState, counters: Counters) -> CounterReply:
        """Return the counters of the switch's ports, of those of all ports."""
        values = counters[self._rows[state.name]]
        return CounterReply(values, np.ones(len(values), bool), values.size)

    # ── Rows at regular times of the wall clock ─────────────────────────────────────────────────

    def report_presence(self) -> None:
        """Update the rows of all switches. Readers see by them that the network lives."""
        for name, state in self._states.items():
            self._reporter.switch(self._dpids[name], name, connected=True, version=state.version)

    def sample_queues(self, counters: Counters) -> None:
        """Record what each queue has sent so far, from `LiveFabric.queue_counters`."""
        for name, state in self._states.items():
            counts = {}
            for number, row in zip(state.port_numbers.tolist(), self._rows[name], strict=True):
                sent = counters[row]
                counts[number] = QueueCounts(
                    tuple(sent[:, _BYTES_SENT].tolist()), tuple(sent[:, _PACKETS_SENT].tolist())
                )
            self._reporter.queues(state, counts)


# ── Agents ───────────────────────────────────────────────────────────────────────────────────────────


NO_PROGRAMS = "simulated hosts run no programs"

_FINISHED, _ENDED = OUTCOMES.index("finished"), OUTCOMES.index("ended")


class HostCounts:
    """What each host's agent would have counted: field of a heartbeat → one number a host, by the index of the host."""

    def __init__(self, hosts: int) -> None:
        names = ("flows_started", "flows_finished", "flows_unfinished", "flows_received", "bytes_received")
        self.fields = {name: np.zeros(hosts, np.int64) for name in (*names, "retransmissions", "timeouts")}

    def add_started(self, batch: FlowBatch) -> None:
        np.add.at(self.fields["flows_started"], batch.src, 1)

    def add_ended(self, flows: Mapping[str, Any]) -> None:
        """Count flows that have ended, by the columns of `LiveFabric.ended`."""
        done = np.isin(flows["outcome"], (_FINISHED, _ENDED))
        for name, end, counted in (
            ("flows_finished", "src", done),
            ("flows_unfinished", "src", ~done),
            ("flows_received", "dst", done),
            ("bytes_received", "dst", flows["delivered_bytes"].astype(np.int64)),
            ("retransmissions", "src", flows["retransmissions"]),
            ("timeouts", "src", flows["timeouts"]),
        ):
            np.add.at(self.fields[name], flows[end], counted)


def host_heartbeats(
    topology: Topology,
    counts: HostCounts,
    force: Desired,
    running: Mapping[int, tuple[agents.RunningFlow, ...]],
) -> Iterator[tuple[str, agents.Heartbeat]]:
    """Yield each host's name and heartbeat. A simulated host has its scheme's congestion control and nothing else.

    `running` has the flows that are under way, by the index of their sender (see RunningFlows.shown).
    """
    control = force.policy.definition.congestion_control
    for index, host in enumerate(topology.hosts):
        own: dict[str, Any] = {name: int(column[index]) for name, column in counts.fields.items()}
        yield (
            host.name,
            agents.HostHeartbeat(
                pid=os.getpid(),
                policy_version=force.version,
                congestion_control=control,
                default_congestion_control=control,
                fallback=False,
                fallback_reason="",
                hook=False,
                hook_problem=NO_PROGRAMS,
                tagger=True,
                spool_depth=0,
                records_refused=0,
                watch=agents.WatchStatus(watching=False, problem=NO_PROGRAMS),
                **own,
                flows_active=own["flows_started"] - own["flows_finished"] - own["flows_unfinished"],
                flows_scheduled=own["flows_started"],
                schedule_done=False,
                realtime=False,
                controls_refused=0,
                flows_undeclared=0,
                start_lag_max_us=0,
                user_space_mean_us=0.0,
                running=running.get(index, ()),
            ),
        )


def port_heartbeat(
    topology: Topology, counters: Counters, force: Desired, now_s: float
) -> agents.PortHeartbeat:
    """Return the heartbeat of all ports, from `LiveFabric.queue_counters`.

    A simulated port marks only ECN-capable packets, so it counts none that it could not mark.
    """
    return agents.PortHeartbeat(
        pid=os.getpid(),
        policy_version=force.version,
        behaviour=force.policy.port_behaviour,
        shares_stand=True,
        attached={},
        at=now_s,
        ports={
            port.id: tuple(
                agents.QueueCounters(packets, size_bytes, marked, dropped, not_markable=0)
                for packets, size_bytes, marked, dropped in counters[row].tolist()
            )
            for row, port in enumerate(topology.ports)
        },
        late_ns={},
    )
