# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time

import pytest
from sqlalchemy import update

from policy.records import FlowRecord
from store.flows import add_flows
from store.schema import agents, flows
from tests.unit.webui.records import record

LIVING = {
    "id": "watched/0123456789ab/7.1000",
    "src": "h1",
    "src_port": 40_000,
    "dst": "192.0.2.9",
    "dst_port": 443,
    "bytes": 5_000_000,
    "rate_bps": 80_000_000,
    "started_at": 1e9,
    "deadline_at": None,
    "retransmissions": 3,
    "congestion_control": "cubic",
    "srtt_us": 250.0,
}
WATCHED = {"source": "watched", "ideal_us": None, "src_port": 40_000, "dst_port": 443, "lasted_us": 3e6}


def beat(client, name, *connections, **status):
    body = {"kind": "host", "connections": list(connections), **status}
    return client.post(f"/api/v1/agents/{name}", json=body)


def test_living_connections_of_all_agents__the_fastest_first(client):
    assert beat(client, "h1", LIVING, connections_lost=2).status_code == 200
    slow = LIVING | {
        "id": "watched/0123456789ab/8.1",
        "rate_bps": 5,
        "retransmissions": None,
        "srtt_us": None,
    }
    fast = LIVING | {"id": "watched/0123456789ab/9.1", "rate_bps": 10**9, "dst": "fd00::2"}
    assert beat(client, "h2", slow, fast, connections_lost=1).status_code == 200
    answer = client.get("/api/v1/connections").json
    assert [c["id"][-3:] for c in answer["living"]] == ["9.1", "000", "8.1"]
    assert answer["living"][1] == LIVING
    assert answer["lost"] == 3
    assert all("connections" not in agent["status"] for agent in client.get("/api/v1/health").json["agents"])


def test_the_connections_of_an_agent_that_is_away_are_not_shown(client, engine):
    beat(client, "h1", LIVING, connections_lost=5)
    with engine.begin() as connection:
        connection.execute(update(agents).values(seen_at=time.time() - 60))
    assert client.get("/api/v1/connections").json == {"living": [], "ended": [], "lost": 0}


@pytest.mark.parametrize(
    "change",
    [
        {"rate_bps": "fast"},
        {"rate_bps": True},
        {"src": "<script>"},
        {"dst_port": 0},
        {"bytes": -1},
        {"colour": "red"},
        {"started_at": None},
    ],
)
def test_a_heartbeat_with_a_bad_connection_is_a_422(client, change):
    answer = beat(client, "h1", LIVING, LIVING | change)
    assert answer.status_code == 422
    assert answer.json["error"]["field"] == f"connections.1.{next(iter(change))}"
    assert client.get("/api/v1/health").json["agents"] == []


@pytest.mark.parametrize("told", ["x", {"a": 1}, [1], [LIVING] * 101])
def test_a_heartbeat_with_something_else_for_connections_is_a_422(client, told):
    assert client.post("/api/v1/agents/h1", json={"kind": "host", "connections": told}).status_code == 422


def test_what_has_ended_is_a_flow_and_no_part_of_the_figures(client, engine):
    body = [
        record("run/1"),
        record("watched/1", **WATCHED, deadline_us=1e3, met=False),
        record("watched/2", **WATCHED),
    ]
    assert client.post("/api/v1/flows", json=body).json == {"accepted": 3, "known": 0}
    assert client.post("/api/v1/flows", json=body).json == {"accepted": 0, "known": 3}
    assert [f["id"] for f in client.get("/api/v1/flows").json["flows"]] == ["watched/2", "watched/1", "run/1"]
    watched = client.get("/api/v1/flows?source=watched").json["flows"]
    assert [(f["id"], f["source"], f["src_port"]) for f in watched] == [
        ("watched/2", "watched", 40_000),
        ("watched/1", "watched", 40_000),
    ]
    assert [f["id"] for f in client.get("/api/v1/flows?source=scheduled").json["flows"]] == ["run/1"]
    assert client.get("/api/v1/flows?source=other").status_code == 422
    assert client.get("/api/v1/fct").json["classes"]["all"]["n"] == 1
    assert client.get("/api/v1/deadlines").json["n"] == 0
    assert [f["id"] for f in client.get("/api/v1/connections").json["ended"]] == ["watched/2", "watched/1"]


def test_what_has_ended_long_ago_is_not_shown(client, engine):
    add_flows(engine, [FlowRecord.from_document(record("watched/1", **WATCHED))])
    with engine.begin() as connection:
        connection.execute(update(flows).values(received_at=time.time() - 3600))
    assert client.get("/api/v1/connections").json["ended"] == []
