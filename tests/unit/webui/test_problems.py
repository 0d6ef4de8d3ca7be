# SPDX-License-Identifier: Apache-2.0
"""What GET /health names as wrong."""

from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Engine

from sluice.policy.network.description import SeenPort, SeenSwitch, Sightings, read_network
from sluice.policy.network.graph import Topology
from sluice.policy.network.realised import realise
from sluice.policy.schema.desired import Policy
from sluice.policy.version import VERSION
from sluice.store.ages import age_s
from sluice.store.desired import put_policy, put_topology
from sluice.store.observed import add_event, newest_events, put_agent, put_network, put_sightings, put_switch
from sluice.store.schema import agents, policies, signs
from tests.kit.heartbeats import document, host_heartbeat, port_heartbeat, queue_counters
from tests.unit.webui.conftest import Client

SEEN = Sightings({0xF1: SeenSwitch(0xF1, "br0", (SeenPort(1, "eth1", 10**9, True),))})
DESCRIPTION: dict[str, Any] = {
    "switch": [{"name": "rack1", "datapath_id": "f1", "port": [{"name": "eth1"}]}],
}
WRONG: dict[str, Any] = {
    "switch": [{"name": "rack1", "datapath_id": "f1", "port": [{"name": "eht1"}]}],
}


HOUR_S = 3600


@pytest.fixture(autouse=True)
def connected(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A switch that is connected, and a description of it. The controller is away after an hour without a sign."""
    monkeypatch.setattr("sluice.webui.network.CONTROLLER_LATE_S", HOUR_S)
    put_sightings(engine, SEEN)
    put_network(engine, DESCRIPTION, "test")
    topology = realise(read_network(DESCRIPTION), SEEN).topology
    put_topology(engine, topology)
    put_switch(engine, 0xF1, "rack1", connected=True, policy_version=1)


def problems(client: Client) -> list[tuple[str, str]]:
    return [(one["kind"], one["where"]) for one in health(client)["problems"]]


def health(client: Client) -> Any:
    return client.get("/api/v1/health").json


def test_a_wrong_port_is_a_problem_until_the_description_is_mended(client: Client, engine: Engine) -> None:
    assert (health(client)["status"], problems(client)) == ("ok", [])
    for mended in (DESCRIPTION, None):
        put_network(engine, WRONG, "test")
        assert problems(client) == [("port-missing", "rack1:eht1")]
        assert health(client)["status"] == "degraded"
        put_network(engine, mended, "test")
        assert problems(client) == []


def test_a_new_report_of_the_switches_counts_at_once(client: Client, engine: Engine) -> None:
    put_sightings(engine, replace(SEEN, duplicates={0xF1: "192.0.2.9"}))
    assert problems(client) == [("duplicate-datapath-id", "rack1")]


def test_what_does_not_report_any_more(client: Client, engine: Engine) -> None:
    """A switch is no problem before its first connection, and none of its own while the controller is away."""
    put_switch(engine, 0xF1, "rack1", connected=False, policy_version=1)
    assert problems(client) == [("switch-away", "rack1")]
    assert health(client)["status"] == "degraded"
    with engine.begin() as connection:
        connection.execute(signs.update().values(seen_s=age_s(engine) - 2 * HOUR_S))
    (problem,) = health(client)["problems"]
    assert (problem["kind"], problem["where"]) == ("controller-away", "controller")
    assert problem["problem"].startswith("no controller has written to the store for 72")
    with engine.begin() as connection:
        connection.execute(signs.delete())
    assert problems(client) == []


def test_a_testbed_has_no_description(client: Client, engine: Engine) -> None:
    put_network(engine, WRONG, "test")
    put_topology(engine, Topology("leaf-spine", (), (), ()))
    assert problems(client) == []


def test_a_description_of_a_later_version_is_named(client: Client, engine: Engine) -> None:
    put_network(engine, DESCRIPTION | {"slices": 3}, "test")
    (problem,) = health(client)["problems"]
    assert "does not accept the description in the store: slices" in problem["problem"]
    assert "upgrade" in problem["problem"]


def test_a_policy_of_a_later_version_leaves_the_one_before_in_force(client: Client, engine: Engine) -> None:
    put_policy(engine, Policy.from_document({"scheme": "pias", "acts_at": []}), "test")
    with engine.begin() as connection:
        row = {"document": {"scheme": "pias", "moods": 3}, "author": "later", "created_at": 1.0}
        connection.execute(policies.insert().values(**row))
    assert problems(client) == [("policy", "policy version 2")]
    assert "(moods), so the one before stays in force" in health(client)["problems"][0]["problem"]
    assert client.get("/api/v1/policy").json["current"]["version"] == 1
    beat = client.post("/api/v1/agents/web1", json=document(host_heartbeat()))
    assert (beat.status_code, beat.json["policy_version"]) == (200, 1)
    assert "event: snapshot" in client.get("/api/v1/events?count=1").text


def test_a_policy_that_acts_at_ports_without_a_port_agent(client: Client, engine: Engine) -> None:
    put_policy(engine, Policy.from_document({"scheme": "pias", "acts_at": []}), "test")
    assert problems(client) == []
    put_policy(engine, Policy.from_document({"scheme": "pias", "acts_at": ["rack1:1"]}), "test")
    assert problems(client) == [("port-agent-missing", "rack1")]
    assert health(client)["problems"][0]["problem"].endswith(": eth1")
    kernel = {"switch": [DESCRIPTION["switch"][0] | {"datapath": "kernel"}]}
    put_topology(engine, realise(read_network(kernel), SEEN).topology)
    assert problems(client) == []
    put_topology(engine, realise(read_network(DESCRIPTION), SEEN).topology)
    put_agent(engine, "ports", port_heartbeat(ports={"rack1:1": (queue_counters(),)}))
    assert problems(client) == []
    with engine.begin() as connection:
        connection.execute(agents.update().values(seen_s=age_s(engine) - 60))
    assert problems(client) == [], "its agent has ended, but the port keeps the program"


def test_a_refused_agent_is_a_problem_for_a_while(client: Client, engine: Engine) -> None:
    for reason in (
        "its certificate is refused: self-signed certificate",
        "this agent's certificate was revoked",
    ):
        add_event(engine, "agent-refused", agent="web1", reason=reason)
    (problem,) = health(client)["problems"]
    assert problem == {
        "kind": "agent-refused",
        "where": "web1",
        "problem": "this agent's certificate was revoked",
    }


def test_a_host_that_falls_back_and_a_port_that_cannot_be_used(client: Client, engine: Engine) -> None:
    reason = "the kernel has no struct_ops"
    put_agent(engine, "web1", host_heartbeat(fallback=True, fallback_reason=reason))
    put_agent(engine, "web2", host_heartbeat(link_problem="eth0 has a qdisc of another program"))
    put_agent(engine, "ports", port_heartbeat(problems=("br0:eth1 has tag=10",)))
    assert {(one["where"], one["problem"]) for one in health(client)["problems"]} == {
        ("web1", reason),
        ("web2", "eth0 has a qdisc of another program"),
        ("ports", "br0:eth1 has tag=10"),
    }


def test_two_agents_with_the_same_address(client: Client, engine: Engine) -> None:
    put_agent(engine, "web1", host_heartbeat(mac="52:54:00:00:00:11"))
    for name in ("a", "b"):  # on the loopback interface
        put_agent(engine, name, host_heartbeat(mac="00:00:00:00:00:00"))
    assert problems(client) == []
    put_agent(engine, "liar", host_heartbeat(mac="52:54:00:00:00:11"))
    assert problems(client) == [("same-address", "liar, web1")]


def send(app: Flask, **changes: Any) -> Any:
    beat = document(host_heartbeat(), **changes)
    return app.test_client().post("/api/v1/agents/web1", json=beat)


def test_an_agent_of_another_version_is_told_both_versions(
    app: Flask, client: Client, engine: Engine
) -> None:
    answer = send(app, version="9.1.0", moods=3)
    assert (answer.status_code, answer.json["error"]["code"]) == (422, "other-version")
    expected = f"the agent is Sluice 9.1.0, the web process is {VERSION}, and they do not fit (moods: "
    assert answer.json["error"]["problem"].startswith(expected)
    assert problems(client) == [("agent-refused", "web1")]
    assert newest_events(engine, 1)[0]["document"]["agent"] == "web1"
    assert send(app, version="9.1.0").status_code == 200
    assert send(app, version=VERSION, moods=3).json["error"]["code"] == "invalid-field"
