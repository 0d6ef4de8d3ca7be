# SPDX-License-Identifier: Apache-2.0
"""Health, topology, schemes, thresholds, ports, agents, errors, metrics."""

import json
import math
import time
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Engine, text

from sluice.policy.schema.desired import Policy
from sluice.policy.schema.entries import write
from sluice.policy.schemes import SCHEMES
from sluice.policy.wire import agents as wire
from sluice.store import observed
from sluice.store.ages import age_s
from sluice.store.desired import put_policy, put_topology
from sluice.store.totals import FLOW_SECONDS, RULES_CHANGED, Tally, flush
from sluice.webui.metrics import MOST_CONTAINERS, OTHER
from sluice.webui.services import EXTENSION
from tests.kit.heartbeats import LIVING, document, host_heartbeat, port_heartbeat, queue_counters, watching
from tests.unit.webui.conftest import Client, scrape
from tests.unit.webui.records import record
from tests.web.synthetic import Network, leaf_spine


def everyone(engine: Engine) -> None:
    put_topology(engine, leaf_spine())
    for node in leaf_spine().switches:
        observed.put_switch(engine, node.dpid, node.name, connected=True, policy_version=1)
    observed.put_agent(engine, "h1", host_heartbeat(flows_received=3))


def test_health__ok_when_all_are_there(client: Client, engine: Engine) -> None:
    before = client.get("/api/v1/health").json
    assert (before["status"], before["controller"]["alive"], before["agents"]) == ("degraded", False, [])
    everyone(engine)
    health = client.get("/api/v1/health").json
    assert (health["status"], health["fabric"], health["dilation"]) == ("ok", "testbed", None)
    assert (health["controller"]["connected"], health["controller"]["expected"]) == (6, 6)
    assert health["agents"][0]["status"]["flows_received"] == 3
    assert 0 <= health["agents"][0]["age_s"] < 60


def test_health__a_silent_agent_is_away(client: Client, engine: Engine) -> None:
    everyone(engine)
    with engine.begin() as connection:
        connection.execute(text("UPDATE agents SET seen_s = seen_s - 60"))
    health = client.get("/api/v1/health").json
    assert health["status"] == "degraded"
    assert health["agents"][0]["alive"] is False


def test_health__the_switches_of_silent_controllers_are_not_connected(client: Client, engine: Engine) -> None:
    everyone(engine)
    with engine.begin() as connection:
        connection.execute(text("UPDATE signs SET seen_s = seen_s - 60"))
        connection.execute(text("UPDATE switches SET seen_s = seen_s - 60"))
    controller = client.get("/api/v1/health").json["controller"]
    assert (controller["alive"], controller["connected"]) == (False, 0)
    everyone(engine)
    controller = client.get("/api/v1/health").json["controller"]
    assert (controller["alive"], controller["connected"]) == (True, 6)
    with engine.begin() as connection:  # one of several controllers
        connection.execute(text("UPDATE switches SET seen_s = seen_s - 60 WHERE dpid <= 2"))
    observed.add_port_samples(engine, [observed.PortSample(time.time(), "s3:1", (0,), (0,))])
    controller = client.get("/api/v1/health").json["controller"]
    assert (controller["alive"], controller["connected"]) == (True, 4)
    assert [s["name"] for s in controller["switches"] if not s["connected"]] == ["s1", "s2"]


def test_health__a_store_that_fails_is_a_503(client: Client, engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE switches"))
    answer = client.get("/api/v1/health")
    assert (answer.status_code, answer.json["error"]["code"]) == (503, "store-unavailable")


def test_schemes__say_which_this_network_cannot_carry_out(client: Client) -> None:
    answer = client.get("/api/v1/schemes").json["schemes"]
    assert {row["name"]: row["colour"] for row in answer} == {s.name: s.colour for s in SCHEMES.values()}
    refused = {row["name"]: row["refused"] for row in answer if row["refused"]}
    assert refused.keys() == {"d3", "homa", "pdq", "pfabric"}
    assert "--on simulator" in refused["d3"]


def simulate(engine: Engine) -> None:
    """Make the network a simulated one."""
    beat = wire.SimulatorHeartbeat(7, elapsed_s=5.0, simulated_s=2.0, dilation=2.5)
    observed.put_agent(engine, "simulator", beat)


def test_health__a_simulated_network_says_so(client: Client, engine: Engine) -> None:
    everyone(engine)
    simulate(engine)
    health = client.get("/api/v1/health").json
    assert (health["status"], health["fabric"], health["dilation"]) == ("ok", "simulator", 2.5)
    assert [agent["kind"] for agent in health["agents"]] == ["host", "simulator"]


def test_schemes__a_simulated_network_carries_out_all_of_them(owner: Client, engine: Engine) -> None:
    simulate(engine)
    put = owner.put("/api/v1/policy?wait_s=0", json={"scheme": "pfabric"})
    assert put.status_code == 202
    assert not [row for row in owner.get("/api/v1/schemes").json["schemes"] if row["refused"]]


def test_heartbeat__no_agent_can_declare_the_network_simulated(client: Client, engine: Engine) -> None:
    body = wire.heartbeat_document(wire.SimulatorHeartbeat(7, elapsed_s=5.0, simulated_s=2.0, dilation=1.0))
    answer = client.post("/api/v1/agents/simulator", json=body)
    assert (answer.status_code, answer.json["error"]["field"]) == (422, "kind")
    assert observed.simulation(engine) is None


def test_thresholds__now_and_since(client: Client, engine: Engine) -> None:
    now = time.time()
    observed.add_thresholds(
        engine,
        [
            observed.ThresholdChange(now - 50, "s1:1", 1, (1000,), 0),
            observed.ThresholdChange(now - 5, "s1:1", 1, (10_000,), 12),
            observed.ThresholdChange(now - 4, "s1:2", 1, (7_499,), 9),
        ],
    )
    answer = client.get("/api/v1/thresholds").json
    assert {port: row["thresholds_bytes"] for port, row in answer["now"].items()} == {
        "s1:1": [10_000],
        "s1:2": [7_499],
    }
    assert answer["history"] == []
    answer = client.get("/api/v1/thresholds", query_string={"since": now - 10}).json
    assert [row["port"] for row in answer["history"]] == ["s1:1", "s1:2"]
    answer = client.get("/api/v1/thresholds", query_string={"since": now - 100, "port": ["s1:1"]}).json
    assert [row["thresholds_bytes"] for row in answer["history"]] == [[1000], [10_000]]
    assert list(answer["now"]) == ["s1:1"]
    answer = client.get("/api/v1/thresholds", query_string={"since": now - 100, "resolution_s": 3600}).json
    assert len(answer["history"]) <= 4


def test_ports__rate_load_and_history(client: Client, engine: Engine) -> None:
    put_topology(engine, leaf_spine())
    now = time.time()
    counts = [(0, 0), (1_250_000, 0), (1_250_000, 2_500_000)]
    observed.add_port_samples(
        engine, [observed.PortSample(now - 2 + i, "s1:1", c, c) for i, c in enumerate(counts)]
    )
    observed.add_port_samples(engine, [observed.PortSample(now - 500, "s1:2", (7, 7), (1, 1))])
    answer = client.get("/api/v1/ports", query_string={"since": now - 60}).json
    assert answer["now"]["s1:1"]["rate_bps"] == pytest.approx(20e6, rel=0.01)
    assert answer["now"]["s1:1"]["load"] == pytest.approx(1.0, rel=0.01)
    assert answer["now"]["s1:1"]["queue_bytes"] == [1_250_000, 2_500_000]
    assert answer["now"]["s1:2"]["rate_bps"] is None
    assert [row["queue_rates_bps"][0] for row in answer["history"]["s1:1"]] == [
        pytest.approx(10e6, rel=0.01),
        0,
    ]
    assert list(client.get("/api/v1/ports?port=s1:2").json["now"]) == ["s1:2"]


def beat(client: Client, heartbeat: wire.Heartbeat, name: str = "h1") -> Any:
    answer = client.post(f"/api/v1/agents/{name}", json=document(heartbeat))
    assert answer.status_code == 200, answer.text
    return answer.json


def test_heartbeat__a_new_foreign_dscp_is_an_event(client: Client, engine: Engine) -> None:
    phone, backup = wire.ForeignDscp(46, 9, 0, 17, 5060, 0), wire.ForeignDscp(8, 0, 5, 0, 0, 0)
    for uses in ((), (phone,), (phone,), (phone, backup)):
        beat(client, host_heartbeat(foreign_dscps=uses))
    events = [row["document"] for row in observed.newest_events(engine, 9) if row["kind"] == "foreign-dscp"]
    assert events == [
        {"host": "h1", "uses": ["DSCP 46 (EF) from UDP port 5060"]},
        {"host": "h1", "uses": ["DSCP 8 (CS1) in packets without a local socket"]},
    ]


def test_heartbeat__answers_what_the_policy_wants(client: Client, engine: Engine) -> None:
    assert beat(client, host_heartbeat()) == {"policy_version": 0, "host": None, "ports": None, "queues": {}}
    policy = Policy.from_document({"scheme": "pias", "mark_at": "20pkt", "idle_gap_ms": 5})
    put_policy(engine, policy, "test")
    wanted = write(wire.AgentSettings.of(1, policy, acts=True))
    assert (wanted["host"]["idle_gap_ns"], wanted["ports"]["mark_bytes"]) == (5_000_000, 30_000)
    before_s = age_s(engine)
    answer = beat(client, host_heartbeat(flows_received=5, answered_s=0.0))
    assert before_s <= answer["answered_s"] <= age_s(engine)
    assert answer == json.loads(json.dumps({**wanted, "answered_s": answer["answered_s"]}))
    del answer["answered_s"]  # as the web process answers agents of an earlier version
    assert beat(client, host_heartbeat(flows_received=5)) == answer
    assert [row.heartbeat for row in observed.all_agents(engine)] == [host_heartbeat(flows_received=5)]


@pytest.mark.parametrize(
    ("key", "value"),
    [("spool_depth", -1), ("spool_depth", "3"), ("colour", "red"), ("pid", None)],
)
def test_heartbeat__a_bad_or_missing_key_is_named(
    client: Client, engine: Engine, key: str, value: Any
) -> None:
    body = document(host_heartbeat(), **{key: value})
    answer = client.post("/api/v1/agents/h1", data=json.dumps(body), content_type="application/json")
    assert (answer.status_code, answer.json["error"]["field"]) == (422, key)
    assert observed.all_agents(engine) == []


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/v1/nothing", 404, "not-found"),
        ("DELETE", "/api/v1/policy", 405, "method-not-allowed"),
        ("POST", "/api/v1/agents/a/b", 404, "not-found"),
    ],
)
def test_errors__one_shape(client: Client, method: str, path: str, status: int, code: str) -> None:
    answer = client.open(path, method=method)
    assert (answer.status_code, answer.json["error"]["code"]) == (status, code)
    assert set(answer.json["error"]) == {"code", "problem", "field", "index"}
    if status == 405:
        assert answer.headers["Allow"]


def test_errors__a_bug_is_a_500_that_tells_nothing(app: Flask, client: Client) -> None:
    app.add_url_rule("/boom", "boom", lambda: str(1 // 0))
    answer = client.get("/boom")
    assert (answer.status_code, answer.json["error"]["code"]) == (500, "internal")
    assert "division" not in answer.text


def test_check__what_a_port_agent_says_of_vlans_is_an_error(client: Client, engine: Engine) -> None:
    """Unless the switch keeps them, because it forwards by itself."""
    said = "has tag=10 in Open vSwitch, and rules of OpenFlow would join the VLANs"
    observed.put_agent(engine, "ports", port_heartbeat(unkept={"rack1:eth1": said}))
    kept = {"name": "rack1", "forwarding": "leave", "port": [{"name": "eth1", "rate": "1Gbit"}]}
    ruled = {"name": "rack1", "datapath_id": "a1", "port": [{"name": "eth1"}]}
    for switch, found in ((kept, []), (ruled, [("rack1:eth1", said, True)])):
        answer = client.post("/api/v1/network/check", json={"switch": [switch]})
        findings = [(one["where"], one["problem"], one["is_error"]) for one in answer.json["findings"]]
        assert [one for one in findings if "tag=10" in one[1]] == found


# ── Metrics ──────────────────────────────────────────────────────────────────────────────────────────────────────────


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


def test_metrics__containers_beyond_the_most_are_other(client: Client) -> None:
    names = [f"c{i}" for i in range(MOST_CONTAINERS + 2)] + ["c0", "c1", ""]
    of = [replace(LIVING, id=f"watched/0/{i}.1", label=name, rate_bps=8) for i, name in enumerate(names)]
    client.post("/api/v1/agents/h1", json=document(watching(*of)))
    found = scrape(client)
    open_now, rates = (found[f"sluice_container_{name}"] for name in ("connections", "bytes_per_second"))
    assert len(open_now) == len(rates) == MOST_CONTAINERS + 1
    for name in ("c0", "c1", OTHER):
        assert open_now[(("container", name),)] == rates[(("container", name),)] == 2


def test_metrics__the_dilation_of_a_simulated_network(client: Client, engine: Engine) -> None:
    assert "sluice_simulator_dilation" not in scrape(client)
    simulate(engine)
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
