# SPDX-License-Identifier: Apache-2.0
"""A testbed under a scheme that tags urgency: deadlines explain the urgency of one host, and not that of another."""

import sys
import time
from pathlib import Path

import numpy as np

from experiments.checks.hostile import attacker
from sluice.policy import tags
from sluice.policy.workload.scenario import scheduled_flows
from sluice.runs.files import scenario_with
from sluice.runs.stack import Stack
from sluice.runtime.wait import wait_until
from sluice.store.observed import all_sanctions, events_of, host_heartbeats

HONEST, FORGER, SINK = "h2", "h3", "h1"
URGENT_BYTES = 1_000_000
FRAMES_PER_S = 1200


def document() -> dict[str, object]:
    """Return a scenario: one flow with a deadline, which is urgent from its first byte on, and longer than a test."""
    flow = {"from": HONEST, "to": SINK, "bytes": "1200MB", "deadline": "1100s"}
    return {
        "name": "urgency",
        "seed": 1,
        "grace": "1200s",
        "fabric": {"topology": "single", "hosts": 3, "host_rate": "20Mbit"},
        "scheme": {"name": "aemon"},
        "workload": {"flow": [flow]},
    }


def test_the_host_that_forges_urgency_is_named_and_the_one_with_a_deadline_is_not(tmp_path: Path) -> None:
    scenario, _, topology = scenario_with(document())
    flows = scheduled_flows(scenario, topology, np.random.default_rng(1), "urgency")
    with Stack.start(scenario, topology, tmp_path) as stack:
        stack.start_agents(flows)

        def urgent_bytes(host: str) -> int:
            beat = host_heartbeats(stack.engine)[host]
            assert not beat.flows_undeclared
            return beat.urgent_bytes or 0

        wait_until(lambda: urgent_bytes(HONEST) > URGENT_BYTES, "the deadline flow is urgent")
        ends = [topology.host_by_name[name] for name in (FORGER, SINK)]
        places = [f"{host.mac},{host.ipv4}" for host in ends]
        argv = [sys.executable, attacker.__file__, "urgent", f"{FORGER}-eth0", *places, str(FRAMES_PER_S)]
        began = time.time()
        stack.testbed.spawn(FORGER, argv)
        wait_until(lambda: all_sanctions(stack.engine), "a host is named")
        (row,) = all_sanctions(stack.engine)
        assert urgent_bytes(FORGER) == 0
        events = wait_until(
            lambda: events_of(stack.engine, "host-demoted", began), "the demotion is an event"
        )
        demotions = [event["document"]["host"] for event in events]
    assert (row.host, row.tag) == (FORGER, tags.URGENCY_LAST)
    assert row.sent_bytes > row.limit_bytes
    assert demotions == [FORGER]
