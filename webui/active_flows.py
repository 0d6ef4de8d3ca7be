# SPDX-License-Identifier: Apache-2.0
"""The flows that are under way: those of a schedule and those of other programs, in one form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sluice.policy.schema.entries import write
from sluice.policy.wire.agents import HostHeartbeat, LivingConnection, RunningFlow
from sluice.policy.wire.records import SCHEDULED, WATCHED

MOST_ACTIVE = 200
"""The most flows of an answer."""


def active_flows(beats: Mapping[str, HostHeartbeat], host: str | None = None) -> list[dict[str, Any]]:
    """Return the flows that these agents report, the newest first; with `host`, those from or to it.

    `beats` are the heartbeats of living agents by their host.
    """
    found = [flow for name, beat in beats.items() for flow in _flows_of(name, beat)]
    chosen = [flow for flow in found if host is None or host in (flow["src"], flow["dst"])]
    chosen.sort(key=lambda flow: (-flow["started_at"], flow["id"]))
    return chosen[:MOST_ACTIVE]


def _flows_of(name: str, beat: HostHeartbeat) -> Iterator[dict[str, Any]]:
    for flow in beat.running:
        yield _running(name, flow)
    for connection in beat.watch.connections:
        yield _connection(connection)


def _running(src: str, flow: RunningFlow) -> dict[str, Any]:
    """Return a flow of a schedule. Its heartbeat names no ports and no rate."""
    ports = {"src_port": None, "dst_port": None}
    return {"source": SCHEDULED, "src": src, **ports, **write(flow), "rate_bps": None}


def _connection(connection: LivingConnection) -> dict[str, Any]:
    """Return a program's connection. What it will send is unknown, and so is what has been acknowledged."""
    return {"source": WATCHED, **write(connection), "acked_bytes": None, "label": ""}
