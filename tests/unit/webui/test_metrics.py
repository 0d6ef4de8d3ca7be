# SPDX-License-Identifier: Apache-2.0

import math
import time

from flask import Flask
from sqlalchemy import Engine

from sluice.policy.schema.desired import Policy
from sluice.policy.wire.agents import SimulatorHeartbeat
from sluice.store.desired import put_policy
from sluice.store.observed import put_agent
from sluice.store.totals import FLOW_SECONDS, RULES_CHANGED, Tally, flush
from sluice.webui.services import EXTENSION
from tests.kit.heartbeats import document, host_heartbeat, port_heartbeat, queue_counters
from tests.unit.webui.conftest import Client, scrape
from tests.unit.webui.records import record
from tests.web.synthetic import Network


def test_metrics__flows_by_class_and_scheme(client: Client) -> None:
    client.post("/api/v1/flows", json=[record(f"f{i}", fct_us=1500.0) for i in range(5)])
    late = {"deadline_us": 1.0, "met": False}
    client.post("/api/v1/flows", json=[record("l", size_class="large", scheme="tcp", fct_us=1e9, **late)])
    client.post("/api/v1/flows", json=[{"id": ""}])
    client.post("/api/v1/flows", data="[", content_type="application/json")
    found = scrape(client)
    small, large = (
        {
            labels: value
            for labels, value in found["sluice_flow_completion_seconds_bucket"].items()
            if pair in labels
        }
        for pair in (("size_class", "small"), ("size_class", "large"))
    )
    assert len(small) == len(large) == len(FLOW_SECONDS.buckets) + 1
    assert {float(dict(labels)["le"]): value for labels, value in small.items()} == {
        bound: 5.0 if bound >= 0.0015 else 0.0 for bound in (*FLOW_SECONDS.buckets, math.inf)
    }
    assert sorted(large.values()) == [0.0] * len(FLOW_SECONDS.buckets) + [1.0]
    labels = (("scheme", "pias"), ("size_class", "small"), ("source", "scheduled"))
    assert found["sluice_flow_completion_seconds_count"][labels] == 5
    assert found["sluice_flow_completion_seconds_sum"][labels] == 5 * 0.0015
    assert (
        found["sluice_deadline_flows_total"][("met", "false"), ("scheme", "tcp"), ("source", "scheduled")]
        == 1
    )
    assert found["sluice_ingestion_seconds_count"] == {(): 2.0}
    assert found["sluice_ingestion_refused_total"] == {
        (("status", "400"),): 1.0,
        (("status", "422"),): 1.0,
    }


def test_metrics__the_network(client: Client, engine: Engine) -> None:
    network = Network(engine)
    policy = Policy.from_document({"scheme": "mlfq-adaptive", "queues": 4})
    version = put_policy(engine, policy, "test")
    network.second(time.time(), policy, version)
    network.heartbeats(version, without="h3")
    ports = {"s1:1": (queue_counters(marked=3, dropped=1),)}
    client.post("/api/v1/agents/ports", json=document(port_heartbeat(ports=ports)))
    client.post("/api/v1/agents/h1", json=document(host_heartbeat(spool_depth=12)))
    found = scrape(client)
    assert found["sluice_switches_connected"] == found["sluice_switches_expected"] == {(): 6.0}
    assert found["sluice_controller_up"] == {(): 1.0}
    assert found["sluice_policy_scheme"] == {(("scheme", "mlfq-adaptive"),): 1.0}
    assert found["sluice_policy_applied"] == {(): 0.0}
    assert len(found["sluice_threshold_bytes"]) == len(network.topology.ports) * 3
    sent = found["sluice_queue_bytes_total"]
    queue = ("port", "s1:1"), ("queue", "2")
    assert sent[queue] == network.queue_bytes["s1:1"][2]
    assert found["sluice_port_capacity_bytes_per_second"][(("port", "s1:1"),)] == 20e6 / 8
    assert found["sluice_agent_up"][("agent", "h1"), ("kind", "host")] == 1
    assert (("agent", "h3"), ("kind", "host")) not in found["sluice_agent_up"]
    assert found["sluice_spool_records"][(("agent", "h1"),)] == 12
    assert found["sluice_queue_marked_packets_total"] == {(("port", "s1:1"), ("queue", "0")): 3.0}


def test_metrics__the_dilation_of_a_simulated_network(client: Client, engine: Engine) -> None:
    assert "sluice_simulator_dilation" not in scrape(client)
    put_agent(engine, "simulator", SimulatorHeartbeat(7, elapsed_s=5.0, simulated_s=2.0, dilation=2.5))
    assert scrape(client)["sluice_simulator_dilation"] == {(): 2.5}


def test_metrics__what_this_worker_and_other_processes_have_counted(
    client: Client, app: Flask, engine: Engine
) -> None:
    tally = Tally()
    tally.count(RULES_CHANGED, 17)
    flush(engine, tally)
    assert scrape(client)["sluice_controller_rules_changed_total"] == {(): 17.0}
    app.extensions[EXTENSION].tally.count(RULES_CHANGED, 5)
    assert scrape(client)["sluice_controller_rules_changed_total"] == {(): 22.0}
