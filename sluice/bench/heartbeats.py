# SPDX-License-Identifier: Apache-2.0
"""The heartbeat of a host on which nothing happens, for measurements of what takes heartbeats."""

from __future__ import annotations

from typing import Any

from policy.agents import HostHeartbeat, WatchStatus

_COUNTS = (
    *(
        "spool_depth",
        "records_refused",
        "flows_started",
        "flows_finished",
        "flows_unfinished",
        "flows_active",
    ),
    *("flows_scheduled", "flows_received", "bytes_received", "retransmissions", "timeouts"),
    *("controls_refused", "flows_undeclared", "start_lag_max_us"),
)


def idle_heartbeat() -> HostHeartbeat:
    """Return the status of an agent without flows."""
    counts: Any = dict.fromkeys(_COUNTS, 0)
    return HostHeartbeat(
        pid=1,
        policy_version=0,
        congestion_control="cubic",
        default_congestion_control="cubic",
        fallback=False,
        fallback_reason="",
        hook=True,
        hook_problem="",
        tagger=True,
        watch=WatchStatus(watching=False),
        schedule_done=False,
        realtime=False,
        user_space_mean_us=0.0,
        **counts,
    )
