# SPDX-License-Identifier: Apache-2.0
"""The agents' part of a simulated network: heartbeats of hosts, of the ports and of the simulator itself."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sluice.policy.network.graph import Topology
from sluice.policy.wire.agents import (
    Heartbeat,
    HostHeartbeat,
    PortHeartbeat,
    QueueCounters,
    RunningFlow,
    SimulatorHeartbeat,
    WatchStatus,
)
from sluice.policy.workload.flows import FlowBatch
from sluice.runs.live.controller import InForce
from sluice.simulator.live import Counters
from sluice.simulator.taps import OUTCOMES

NO_PROGRAMS = "simulated hosts run no programs"

_FINISHED, _ENDED = OUTCOMES.index("finished"), OUTCOMES.index("ended")


class HostCounts:
    """What each host's agent would have counted: one number a host, by the index of the host."""

    def __init__(self, hosts: int) -> None:
        self.started = np.zeros(hosts, np.int64)
        self.finished = np.zeros(hosts, np.int64)
        self.unfinished = np.zeros(hosts, np.int64)
        self.received = np.zeros(hosts, np.int64)
        self.bytes_received = np.zeros(hosts, np.int64)
        self.retransmissions = np.zeros(hosts, np.int64)
        self.timeouts = np.zeros(hosts, np.int64)

    def add_started(self, batch: FlowBatch) -> None:
        np.add.at(self.started, batch.src, 1)

    def add_ended(self, flows: Mapping[str, Any]) -> None:
        """Count flows that have ended, by the columns of `LiveFabric.ended`."""
        done = np.isin(flows["outcome"], (_FINISHED, _ENDED))
        np.add.at(self.finished, flows["src"], done)
        np.add.at(self.unfinished, flows["src"], ~done)
        np.add.at(self.received, flows["dst"], done)
        np.add.at(self.bytes_received, flows["dst"], flows["delivered_bytes"].astype(np.int64))
        np.add.at(self.retransmissions, flows["src"], flows["retransmissions"])
        np.add.at(self.timeouts, flows["src"], flows["timeouts"])


def host_heartbeats(
    topology: Topology, counts: HostCounts, force: InForce, running: Mapping[int, tuple[RunningFlow, ...]]
) -> Iterator[tuple[str, Heartbeat]]:
    """Yield each host's name and heartbeat. A simulated host has its scheme's congestion control and nothing else.

    `running` has the flows that are under way, by the index of their sender (see RunningFlows.shown).
    """
    control = force.policy.definition.congestion_control
    for index, host in enumerate(topology.hosts):
        started, finished = int(counts.started[index]), int(counts.finished[index])
        unfinished = int(counts.unfinished[index])
        yield (
            host.name,
            HostHeartbeat(
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
                watch=WatchStatus(watching=False, problem=NO_PROGRAMS),
                flows_started=started,
                flows_finished=finished,
                flows_unfinished=unfinished,
                flows_active=started - finished - unfinished,
                flows_scheduled=started,
                schedule_done=False,
                flows_received=int(counts.received[index]),
                bytes_received=int(counts.bytes_received[index]),
                retransmissions=int(counts.retransmissions[index]),
                timeouts=int(counts.timeouts[index]),
                realtime=False,
                controls_refused=0,
                flows_undeclared=0,
                start_lag_max_us=0,
                user_space_mean_us=0.0,
                running=running.get(index, ()),
            ),
        )


def port_heartbeat(topology: Topology, counters: Counters, force: InForce, now_s: float) -> PortHeartbeat:
    """Return the heartbeat of all ports, from `LiveFabric.queue_counters`.

    A simulated port marks only ECN-capable packets, so it counts none that it could not mark.
    """
    return PortHeartbeat(
        pid=os.getpid(),
        policy_version=force.version,
        behaviour=force.policy.port_behaviour,
        shares_stand=True,
        attached={},
        at=now_s,
        ports={port.id: _queues(counters[row]) for row, port in enumerate(topology.ports)},
        late_ns={},
    )


def _queues(counters: Counters) -> tuple[QueueCounters, ...]:
    rows: list[list[int]] = counters.tolist()
    return tuple(
        QueueCounters(packets, size_bytes, marked, dropped, not_markable=0)
        for packets, size_bytes, marked, dropped in rows
    )


def simulator_heartbeat(elapsed_s: float, simulated_s: float, dilation: float) -> SimulatorHeartbeat:
    return SimulatorHeartbeat(os.getpid(), elapsed_s, simulated_s, round(dilation, 3))
