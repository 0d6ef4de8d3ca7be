# SPDX-License-Identifier: Apache-2.0
"""Heartbeats of healthy agents. A test changes the fields that it judges."""

from dataclasses import replace
from typing import Any

from experiments.kit.heartbeats import idle_heartbeat
from sluice.policy.schema.desired import PortBehaviour
from sluice.policy.wire.agents import (
    Heartbeat,
    HostHeartbeat,
    LivingConnection,
    PortHeartbeat,
    QueueCounters,
    WatchStatus,
    heartbeat_document,
)

_HOST = replace(
    idle_heartbeat(),
    pid=7,
    policy_version=1,
    congestion_control="sluice_dctcp",
    default_congestion_control="sluice_dctcp",
    watch=WatchStatus(watching=True),
    flows_started=5,
    flows_finished=4,
    flows_active=1,
    flows_scheduled=9,
    flows_received=3,
    bytes_received=30_000,
    realtime=True,
    start_lag_max_us=120,
    user_space_mean_us=15.5,
)
_PORT = PortHeartbeat(
    pid=8,
    policy_version=1,
    behaviour=PortBehaviour(97_500),
    shares_stand=True,
    attached={"s1-eth1": 1},
    at=12.5,
    ports={},
    late_ns={},
)

LIVING = LivingConnection(
    id="watched/0123456789ab/7.1000",
    src="h1",
    src_port=40_000,
    dst="192.0.2.9",
    dst_port=443,
    bytes=5_000_000,
    rate_bps=80_000_000,
    started_at=1e9,
    deadline_at=None,
    retransmissions=3,
    congestion_control="cubic",
    srtt_us=250.0,
)
"""A connection of a program that is no part of Sluice."""


def host_heartbeat(**changes: Any) -> HostHeartbeat:
    return replace(_HOST, **changes)


def watching(*connections: LivingConnection, lost: int = 0, **changes: Any) -> HostHeartbeat:
    """Return the heartbeat of a host with these open connections."""
    status = WatchStatus(watching=True, lost=lost, living=len(connections), connections=connections)
    return host_heartbeat(watch=replace(status, **changes))


def port_heartbeat(**changes: Any) -> PortHeartbeat:
    return replace(_PORT, **changes)


def queue_counters(*, marked: int = 0, dropped: int = 0) -> QueueCounters:
    return QueueCounters(packets=100, bytes=150_000, marked=marked, dropped=dropped, not_markable=0)


def document(heartbeat: Heartbeat, **changes: Any) -> dict[str, Any]:
    """Return the heartbeat as an agent sends it, with keys changed. None leaves a key out."""
    changed = {**heartbeat_document(heartbeat), **changes}
    return {key: value for key, value in changed.items() if value is not None}
