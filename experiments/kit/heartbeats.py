# SPDX-License-Identifier: Apache-2.0
"""What agents send, for what loads a web process: heartbeats of hosts on which nothing happens, and flow records."""

import time

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


_RECORD = (
    '{{"id":"bench/{source}/{number}","src":"{source}","dst":"h2","bytes":{size},"size_class":"small",'
    '"started_at":{at:.6f},"fct_us":{fct},"ideal_us":900.0,"deadline_us":{deadline},"met":{met},'
    '"retransmissions":0,"congestion_control":"sluice_dctcp","scheme":"mlfq-adaptive","status":"finished",'
    '"reason":"","source":"scheduled","src_port":null,"dst_port":null,"lasted_us":null,"timeouts":0,"srtt_us":812.5}}'
)


def flow_records(source: str, first: int, count: int) -> bytes:
    """Return the body of a delivery of records, of which the first one has this number."""
    at = time.time() - 0.3
    records = [
        _RECORD.format(
            source=source,
            number=first + i,
            size=1000 + i,
            at=at,
            fct=1000.0 + 37 * i,
            deadline="null" if i % 3 else "5000.0",
            met="null" if i % 3 else str(i % 2 == 0).lower(),
        )
        for i in range(count)
    ]
    return f"[{','.join(records)}]".encode()
