# SPDX-License-Identifier: Apache-2.0
"""Agents that no one expects and that report no more. Anyone on this machine may report under an invented name."""

from __future__ import annotations

import time

from sqlalchemy import Engine, delete

from sluice.policy.wire.agents import SimulatorHeartbeat, programmed_ports
from sluice.store.certificates import newest_certificates
from sluice.store.desired import current_topology
from sluice.store.observed import AgentRow, add_event, all_agents
from sluice.store.schema import agents


def forget_silent_agents(engine: Engine, keep_s: float, age_s: float) -> int:
    """Delete the unexpected agents without a heartbeat for `keep_s`, with an event each; return how many.

    Expected are hosts of the network, port agents of its ports, and agents with a valid certificate. `age_s` is the
    reading of the store's clock.
    """
    before_s = age_s - keep_s
    silent = [row for row in all_agents(engine) if row.seen_s < before_s]
    gone = [row for row in silent if not _is_expected(engine, row)]
    for row in gone:
        with engine.begin() as connection:
            still_silent = (agents.c.name == row.name) & (agents.c.seen_s < before_s)
            deleted = connection.execute(delete(agents).where(still_silent)).rowcount
        if deleted:
            add_event(
                engine,
                "agent-expired",
                agent=row.name,
                agent_kind=row.kind,
                silent_s=round(age_s - row.seen_s),
            )
    return len(gone)


def _is_expected(engine: Engine, row: AgentRow) -> bool:
    if row.kind == SimulatorHeartbeat.KIND:
        return True
    topology = current_topology(engine)
    if topology is not None:
        if row.name in {host.name for host in topology.hosts}:
            return True
        if programmed_ports([row.heartbeat]) & {port.id for port in topology.ports}:
            return True
    return any(
        found.name == row.name and found.revoked_at is None and found.ends_at > time.time()
        for found in newest_certificates(engine)
    )
