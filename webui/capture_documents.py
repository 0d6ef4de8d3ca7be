# SPDX-License-Identifier: Apache-2.0
"""Captures as the API shows them, and which agent can make one."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine

from sluice.policy.captures import SNAP_BYTES
from sluice.policy.version import VERSION
from sluice.policy.wire.agents import PortHeartbeat
from sluice.store.ages import age_s
from sluice.store.captures import LATE, Capture
from sluice.store.desired import current_topology
from sluice.store.observed import all_agents, simulation
from sluice.webui.bodies import check_port
from sluice.webui.errors import ApiError
from sluice.webui.problems import is_alive


def capture_document(capture: Capture, now_s: float) -> dict[str, Any]:
    """Describe a capture. `now_s` is the reading of the store's clock."""
    running = capture.is_open(now_s)
    late = capture.ended_s is None and not running
    problem = LATE if late else capture.problem
    return {
        "id": capture.id,
        "port": capture.port,
        "agent": capture.agent,
        "seconds": capture.seconds,
        "bytes": capture.bytes,
        "snap_bytes": SNAP_BYTES,
        "by": capture.by,
        "address": capture.address,
        "at": capture.at,
        "state": "running" if running else "failed" if problem else "done",
        "problem": problem,
        "packets": capture.packets,
        "lost": capture.lost,
        "full": capture.full,
        "size": capture.size,
    }


def capturing_agent(engine: Engine, port_id: str) -> str:
    """Return the port agent that can capture a port. Raises ApiError if none can."""
    check_port(current_topology(engine), port_id)
    if simulation(engine) is not None:
        raise ApiError(
            409,
            "simulated",
            "the network is simulated, so no interface carries its packets; a testbed's ports can be captured",
            "port",
        )
    now_s = age_s(engine)
    for row in all_agents(engine):
        beat = row.heartbeat
        if isinstance(beat, PortHeartbeat) and is_alive(row, now_s) and port_id in beat.ports:
            _check_version(row.name, beat.version)
            return row.name
    raise ApiError(
        409,
        "no-port-agent",
        f"no port agent that is alive reports {port_id}; start `sluice port-agent` on the machine of its switch",
        "port",
    )


def _check_version(agent: str, version: str) -> None:
    if version != VERSION:
        text = (
            f"the agent {agent} is Sluice {version or 'of an earlier version'}, the web process is {VERSION}"
        )
        raise ApiError(409, "other-version", f"{text}: upgrade the agent to capture there", "port")
