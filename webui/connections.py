# SPDX-License-Identifier: Apache-2.0
"""Other programs' TCP connections, as the agents' flow watch reports them: open ones and recently
ended ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Engine

from sluice.policy.schema.entries import write
from sluice.policy.wire.agents import HostHeartbeat
from sluice.policy.wire.records import WATCHED
from sluice.store.flows import newest_flows

MOST_LIVING, MOST_ENDED = 50, 20
ENDED_WINDOW_S = 60.0


def living_connections(beats: Iterable[HostHeartbeat]) -> list[dict[str, Any]]:
    """Return the open connections that the living agents report, fastest first."""
    found = [connection for beat in beats for connection in beat.watch.connections]
    found.sort(key=lambda connection: (-connection.rate_bps, connection.id))
    return [write(connection) for connection in found[:MOST_LIVING]]


def ended_connections(engine: Engine, now: float) -> list[Mapping[str, Any]]:
    """Return the watched flows whose record arrived within the last minute, newest first."""
    return newest_flows(engine, now - ENDED_WINDOW_S, WATCHED, MOST_ENDED)


def lost_connections(beats: Iterable[HostHeartbeat]) -> int:
    """Return how many connections the watches of the living agents missed."""
    return sum(beat.watch.lost for beat in beats)
