# SPDX-License-Identifier: Apache-2.0
"""What a heartbeat says of the scheduled flows that are under way."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Protocol

from sluice.hostagent.tcp import TcpInfo
from sluice.policy.units import NS_PER_S, US_PER_S
from sluice.policy.wire.agents import RunningFlow
from sluice.policy.wire.records import ScheduledFlow

MOST_SHOWN = 20
"""A heartbeat holds at most this many flows, those that began first."""


class Running(Protocol):
    """A connection that may carry a flow, for example hostagent.sender.OutgoingConnection."""

    def progress(self) -> RunningFlow | None:
        """Return the state of its flow; None without one. Raises OSError if the socket is closed."""
        ...


def running_flows(connections: Iterable[Running]) -> tuple[RunningFlow, ...]:
    """Return the state of the first flows. Another thread may end them meanwhile; those are left out."""
    found = (flow for connection in connections if (flow := _progress(connection)) is not None)
    return tuple(islice(found, MOST_SHOWN))


def _progress(connection: Running) -> RunningFlow | None:
    try:
        return connection.progress()
    except OSError:
        return None


def running_flow(
    flow: ScheduledFlow, started_ns: int, info: TcpInfo, before: TcpInfo, congestion_control: str
) -> RunningFlow:
    """Return the heartbeat's entry of a flow, an endless one without a deadline.

    `started_ns` is CLOCK_REALTIME, and `before` the state of its connection when the flow began.
    """
    started_at = started_ns / NS_PER_S
    timed = flow.deadline_us is not None and not flow.endless
    return RunningFlow(
        id=flow.id,
        dst=flow.dst,
        label=flow.label,
        bytes=None if flow.endless else flow.bytes,
        acked_bytes=max(0, info.acked_bytes - before.acked_bytes),
        started_at=started_at,
        deadline_at=started_at + (flow.deadline_us or 0) / US_PER_S if timed else None,
        retransmissions=max(0, info.retransmissions - before.retransmissions),
        congestion_control=congestion_control,
        srtt_us=float(info.srtt_us) if info.srtt_us else None,
    )
