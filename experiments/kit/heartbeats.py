# SPDX-License-Identifier: Apache-2.0
"""The heartbeat of a host on which nothing happens, for measurements and checks of what takes heartbeats."""

from sluice.policy.wire.agents import HostHeartbeat, WatchStatus


def idle_heartbeat() -> HostHeartbeat:
    """Return the status of an agent without flows."""
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
        spool_depth=0,
        records_refused=0,
        watch=WatchStatus(watching=False),
        flows_started=0,
        flows_finished=0,
        flows_unfinished=0,
        flows_active=0,
        flows_scheduled=0,
        schedule_done=False,
        flows_received=0,
        bytes_received=0,
        retransmissions=0,
        timeouts=0,
        realtime=False,
        controls_refused=0,
        flows_undeclared=0,
        start_lag_max_us=0,
        user_space_mean_us=0.0,
    )
