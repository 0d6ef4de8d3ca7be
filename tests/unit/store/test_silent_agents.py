# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from dataclasses import replace

from sqlalchemy import Engine

from sluice.policy.wire.agents import Heartbeat, SimulatorHeartbeat
from sluice.store import ages
from sluice.store.certificates import Certificate, put_certificate
from sluice.store.desired import put_topology
from sluice.store.observed import all_agents, newest_events, put_agents
from sluice.store.retention import FOR_EVER, Retention, forget_some
from tests.kit.heartbeats import host_heartbeat, port_heartbeat, queue_counters
from tests.web.synthetic import leaf_spine

EXPECTED: dict[str, Heartbeat] = {
    "h1": host_heartbeat(),
    "ports": port_heartbeat(ports={"s1:1": (queue_counters(),)}),
    "certified": host_heartbeat(),
    "simulator": SimulatorHeartbeat(1, 1.0, 1.0, 1.0),
}
INVENTED: dict[str, Heartbeat] = {
    "h99": host_heartbeat(),
    "other-ports": port_heartbeat(ports={"x1:1": (queue_counters(),)}),
    "revoked": host_heartbeat(),
    "ended": host_heartbeat(),
}


def names(engine: Engine) -> set[str]:
    return {row.name for row in all_agents(engine)}


def test_silent_agents__that_nobody_expects_are_forgotten_with_an_event(engine: Engine) -> None:
    now = time.time()
    put_topology(engine, leaf_spine())
    valid = Certificate("a", "certified", "host", now, now + 9000)
    put_certificate(engine, valid)
    put_certificate(engine, replace(valid, serial="b", name="revoked", revoked_at=now))
    put_certificate(engine, replace(valid, serial="c", name="ended", ends_at=now - 60))
    age_s = ages.age_s(engine)
    put_agents(engine, {**EXPECTED, **INVENTED})
    forget_some(engine, Retention(), age_s + 500)
    assert names(engine) == {*EXPECTED, *INVENTED}
    forget_some(engine, FOR_EVER, age_s + 700)
    assert names(engine) == {*EXPECTED, *INVENTED}
    forget_some(engine, Retention(), age_s + 700)
    assert names(engine) == set(EXPECTED)
    events = [row["document"] for row in newest_events(engine, 10) if row["kind"] == "agent-expired"]
    assert {event["agent"]: event["agent_kind"] for event in events} == {
        name: beat.KIND for name, beat in INVENTED.items()
    }
    assert all(600 < event["silent_s"] <= 700 for event in events)
