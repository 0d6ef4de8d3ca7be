# SPDX-License-Identifier: Apache-2.0

import time
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine, update

from sluice.policy.schema.entries import write
from sluice.policy.wire.agents import LivingConnection
from sluice.policy.wire.records import FlowRecord
from sluice.store.ages import age_s
from sluice.store.flows import add_flows
from sluice.store.schema import agents, flows
from tests.kit.heartbeats import LIVING, document, host_heartbeat, watching
from tests.unit.webui.conftest import Answer, Client
from tests.unit.webui.records import record

WATCHED = {"source": "watched", "ideal_us": None, "src_port": 40_000, "dst_port": 443, "lasted_us": 3e6}


def beat(client: Client, name: str, *connections: LivingConnection, lost: int = 0) -> Answer:
    return client.post(f"/api/v1/agents/{name}", json=document(watching(*connections, lost=lost)))


def test_living_connections_of_all_agents__the_fastest_first(client: Client) -> None:
    assert beat(client, "h1", LIVING, lost=2).status_code == 200
    slow = replace(LIVING, id="watched/0123456789ab/8.1", rate_bps=5, retransmissions=None, srtt_us=None)
    fast = replace(LIVING, id="watched/0123456789ab/9.1", rate_bps=10**9, dst="fd00::2")
    assert beat(client, "h2", slow, fast, lost=1).status_code == 200
    answer = client.get("/api/v1/connections").json
    assert [c["id"][-3:] for c in answer["living"]] == ["9.1", "000", "8.1"]
    assert answer["living"][1] == write(LIVING)
    assert answer["lost"] == 3
    agents = client.get("/api/v1/health").json["agents"]
    assert all(agent["status"]["watch"]["connections"] == [] for agent in agents)


def test_the_connections_of_an_agent_that_is_away_are_not_shown(client: Client, engine: Engine) -> None:
    beat(client, "h1", LIVING, lost=5)
    with engine.begin() as connection:
        connection.execute(update(agents).values(seen_s=age_s(engine) - 60))
    assert client.get("/api/v1/connections").json == {"living": [], "ended": [], "lost": 0}


def beat_with(client: Client, connections: Any) -> tuple[int, str | None]:
    """Return the status code and the field of a heartbeat with these documents for connections."""
    body = document(host_heartbeat())
    body["watch"]["connections"] = connections
    answer = client.post("/api/v1/agents/h1", json=body)
    return answer.status_code, answer.json.get("error", {}).get("field")


@pytest.mark.parametrize(
    "change",
    [
        {"rate_bps": True},
        {"src": "<script>"},
        {"bytes": 10**400},
        {"colour": "red"},
        {"started_at": None},
    ],
)
def test_a_heartbeat_with_a_bad_connection_is_a_422(client: Client, change: dict[str, Any]) -> None:
    found = beat_with(client, [write(LIVING), write(LIVING) | change])
    assert found == (422, f"watch.connections[1].{next(iter(change))}")
    assert client.get("/api/v1/health").json["agents"] == []


def test_what_has_ended_is_a_flow_and_no_part_of_the_figures(client: Client, engine: Engine) -> None:
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


def test_what_has_ended_long_ago_is_not_shown(client: Client, engine: Engine) -> None:
    add_flows(engine, [FlowRecord.from_document(record("watched/1", **WATCHED))])
    with engine.begin() as connection:
        connection.execute(update(flows).values(received_at=time.time() - 3600))
    assert client.get("/api/v1/connections").json["ended"] == []
