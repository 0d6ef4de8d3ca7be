# SPDX-License-Identifier: Apache-2.0
"""Captures through the API, from the request to the download. The agent is played by the test."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from sqlalchemy import Engine

from sluice.policy.version import VERSION
from sluice.policy.wire.agents import SimulatorHeartbeat
from sluice.store import captures as stored
from sluice.store.ages import age_s
from sluice.store.desired import put_topology
from sluice.store.observed import newest_events, put_agent
from sluice.store.tokens import create_token
from tests.kit.heartbeats import document, port_heartbeat, queue_counters
from tests.unit.webui.conftest import Client
from tests.web.synthetic import leaf_spine

PATH = "/api/v1/captures"
BEAT = port_heartbeat(ports={"s1:2": (queue_counters(),)}, version=VERSION)
PCAP = b"\xd4\xc3\xb2\xa1" + bytes(20)


@pytest.fixture(autouse=True)
def network(engine: Engine) -> None:
    put_topology(engine, leaf_spine())
    put_agent(engine, "ports", BEAT)


def ordered(client: Client) -> Any:
    return client.post("/api/v1/agents/ports", json=document(BEAT)).json.get("capture")


def deliver(client: Client, capture: str, agent: str = "ports", **result: Any) -> Any:
    return client.post(f"/api/v1/agents/{agent}/captures/{capture}", json=result)


def test_capture__from_the_request_to_the_download(
    client: Client, engine: Engine, bearer: dict[str, str]
) -> None:
    assert ordered(client) is None
    wish = {"port": "s1:2", "seconds": 2, "bytes": 5000}
    asked = client.post(PATH, json=wish, headers=bearer)
    assert (asked.status_code, asked.json["state"], asked.json["agent"]) == (202, "running", "ports")
    capture = asked.json["id"]
    assert ordered(client) == {"id": capture, **wish}
    file = f"{PATH}/{capture}/pcap"
    assert client.get(file, headers=bearer).json["error"]["problem"] == "the capture still runs"
    answer = deliver(client, capture, packets=3, lost=1, full=True, pcap=base64.b64encode(PCAP).decode())
    assert answer.json == {"accepted": True}
    assert ordered(client) is None
    state = client.get(f"{PATH}/{capture}", headers=bearer).json
    assert {key: state[key] for key in ("state", "packets", "lost", "full", "size")} == {
        "state": "done", "packets": 3, "lost": 1, "full": True, "size": 24,
    }  # fmt: skip
    download = client.get(file, headers=bearer)
    assert download.data == PCAP
    assert download.mimetype == "application/vnd.tcpdump.pcap"
    assert 'filename="s1-2-' in download.headers["Content-Disposition"]
    assert [event["kind"] for event in newest_events(engine, 9)] == ["capture-requested", "capture-done"]
    audit = client.get("/api/v1/audit", headers=bearer).json["captures"]
    assert [(row["id"], row["by"], row["port"]) for row in audit] == [(capture, "owner", "s1:2")]


def test_capture__needs_the_role_change_to_start_to_look_and_to_download(
    client: Client, engine: Engine, bearer: dict[str, str]
) -> None:
    reader = {"Authorization": f"Bearer {create_token(engine, 'auditor', 'read', 1e11)}"}
    capture = client.post(PATH, json={"port": "s1:2"}, headers=bearer).json["id"]
    for path in (f"{PATH}/{capture}", f"{PATH}/{capture}/pcap"):
        assert client.get(path).status_code == 401
        assert client.get(path, headers=reader).status_code == 403
    assert client.post(PATH, json={"port": "s1:2"}).status_code == 401
    assert client.post(PATH, json={"port": "s1:2"}, headers=reader).status_code == 403


def test_capture__an_agent_makes_one_at_a_time(client: Client, bearer: dict[str, str]) -> None:
    first = client.post(PATH, json={"port": "s1:2"}, headers=bearer).json["id"]
    second = client.post(PATH, json={"port": "s1:2"}, headers=bearer)
    assert (second.status_code, second.json["error"]["code"]) == (409, "busy")
    assert "ports is capturing s1:2 for owner" in second.json["error"]["problem"]
    deliver(client, first, problem="tcpdump is missing")
    assert client.post(PATH, json={"port": "s1:2"}, headers=bearer).status_code == 202


def test_capture__a_failure_says_why(client: Client, bearer: dict[str, str]) -> None:
    capture = client.post(PATH, json={"port": "s1:2"}, headers=bearer).json["id"]
    deliver(client, capture, problem="tcpdump is missing")
    assert client.get(f"{PATH}/{capture}", headers=bearer).json["state"] == "failed"
    answer = client.get(f"{PATH}/{capture}/pcap", headers=bearer)
    assert (answer.status_code, answer.json["error"]["problem"]) == (409, "tcpdump is missing")


def test_capture__that_the_agent_never_delivers_has_failed(
    client: Client, engine: Engine, bearer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = client.post(PATH, json={"port": "s1:2", "seconds": 5}, headers=bearer).json["id"]
    monkeypatch.setattr(stored, "LATE_S", -6.0)
    state = client.get(f"{PATH}/{capture}", headers=bearer).json
    assert (state["state"], state["problem"]) == ("failed", stored.LATE)
    assert ordered(client) is None
    assert client.post(PATH, json={"port": "s1:2"}, headers=bearer).status_code == 202


def test_capture__its_file_goes_and_the_row_stays(
    client: Client, engine: Engine, bearer: dict[str, str]
) -> None:
    capture = client.post(PATH, json={"port": "s1:2"}, headers=bearer).json["id"]
    deliver(client, capture, pcap=base64.b64encode(PCAP).decode())
    stored.forget_files(engine, age_s(engine) + stored.FILE_S / 2)
    assert client.get(f"{PATH}/{capture}/pcap", headers=bearer).status_code == 200
    stored.forget_files(engine, age_s(engine) + stored.FILE_S + 1)
    assert client.get(f"{PATH}/{capture}/pcap", headers=bearer).status_code == 410
    assert client.get(f"{PATH}/{capture}", headers=bearer).json["state"] == "done"


def test_capture__only_the_last_files_and_rows_stay(
    client: Client, engine: Engine, bearer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "MOST_FILES", 1)
    monkeypatch.setattr(stored, "MOST_ROWS", 2)
    made = []
    for _ in range(3):
        made.append(client.post(PATH, json={"port": "s1:2"}, headers=bearer).json["id"])
        deliver(client, made[-1], pcap=base64.b64encode(PCAP).decode())
    statuses = [client.get(f"{PATH}/{one}/pcap", headers=bearer).status_code for one in made]
    assert statuses == [404, 410, 200]


def test_deliver__only_once_and_only_by_its_agent(client: Client, bearer: dict[str, str]) -> None:
    capture = client.post(PATH, json={"port": "s1:2"}, headers=bearer).json["id"]
    assert deliver(client, capture, agent="other", problem="x").status_code == 403
    assert deliver(client, capture, pcap="a").json["error"]["problem"] == "must be base64"
    assert deliver(client, capture, problem="first").json == {"accepted": True}
    assert deliver(client, capture, problem="second").json == {"accepted": False}
    assert client.get(f"{PATH}/{capture}", headers=bearer).json["problem"] == "first"
    assert deliver(client, "0" * 16).status_code == 404


@pytest.mark.parametrize(
    ("port", "status", "code"), [("s1:1", 409, "no-port-agent"), ("s1:99", 404, "no-such-port")]
)
def test_capture__a_port_without_agent_and_one_that_is_not_there(
    client: Client, bearer: dict[str, str], port: str, status: int, code: str
) -> None:
    answer = client.post(PATH, json={"port": port}, headers=bearer)
    assert (answer.status_code, answer.json["error"]["code"]) == (status, code)


def test_capture__is_not_possible_on_a_simulated_network(
    client: Client, engine: Engine, bearer: dict[str, str]
) -> None:
    put_agent(engine, "network", SimulatorHeartbeat(1, 1.0, 1.0, 1.0))
    answer = client.post(PATH, json={"port": "s1:2"}, headers=bearer)
    assert (answer.status_code, answer.json["error"]["code"]) == (409, "simulated")
    assert "no interface carries its packets" in answer.json["error"]["problem"]


def test_capture__an_agent_of_another_version_cannot(
    client: Client, engine: Engine, bearer: dict[str, str]
) -> None:
    put_agent(engine, "ports", port_heartbeat(ports={"s1:2": (queue_counters(),)}, version="0.0.1"))
    answer = client.post(PATH, json={"port": "s1:2"}, headers=bearer)
    assert (answer.status_code, answer.json["error"]["code"]) == (409, "other-version")
