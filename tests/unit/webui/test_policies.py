# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
from sqlalchemy import Engine

import topologies
from policy.desired import Policy
from store.desired import current_version, mark_applied, put_policy, put_topology
from store.observed import newest_events
from tests.unit.webui.conftest import Client
from webui.api.policies import wait_applied

PATH = "/api/v1/policy"


def test_read_policy__none_before_the_first(client: Client) -> None:
    assert client.get(PATH).json == {"current": None, "history": []}


def test_change_policy__pending_until_the_controller_applies_it(
    client: Client, engine: Engine, bearer: dict[str, str]
) -> None:
    answer = client.put(f"{PATH}?wait_s=0", json={"scheme": "pias"}, headers=bearer)
    assert answer.status_code == 202
    assert answer.json["state"] == "pending"
    assert answer.json["applied_at"] is None
    assert answer.json["policy"]["queues"] == 8
    mark_applied(engine, answer.json["version"])
    current = client.get(PATH).json["current"]
    assert current["state"] == "applied"
    assert current["version"] == answer.json["version"]


def test_change_policy__answers_200_once_it_is_applied(
    client: Client, engine: Engine, bearer: dict[str, str]
) -> None:
    def controller() -> None:
        while not current_version(engine):
            time.sleep(0.01)
        mark_applied(engine, current_version(engine))

    thread = threading.Thread(target=controller)
    thread.start()
    answer = client.put(f"{PATH}?wait_s=20", json={"scheme": "dctcp"}, headers=bearer)
    thread.join()
    assert answer.status_code == 200
    assert answer.json["state"] == "applied"
    assert answer.json["applied_at"] >= answer.json["created_at"]


def test_change_policy__versions_count_up_and_old_ones_are_superseded(
    client: Client, bearer: dict[str, str]
) -> None:
    for scheme in ("tcp", "dctcp", "mlfq-adaptive"):
        client.put(f"{PATH}?wait_s=0", json={"scheme": scheme}, headers=bearer)
    history = client.get(PATH).json["history"]
    assert [row["policy"]["scheme"] for row in history] == ["mlfq-adaptive", "dctcp", "tcp"]
    assert [row["state"] for row in history] == ["pending", "superseded", "superseded"]
    assert [row["version"] for row in history] == [3, 2, 1]
    assert len(client.get(f"{PATH}?limit=2").json["history"]) == 2


def test_change_policy__the_ramp_and_what_was_before_it(client: Client, bearer: dict[str, str]) -> None:
    """The document of a policy from before ramps existed has neither end of one."""
    answer = client.put(f"{PATH}?wait_s=0", json={"scheme": "datcp", "mark_min": "40KB"}, headers=bearer)
    policy = answer.json["policy"]
    assert (policy["mark_at"], policy["mark_min"], policy["mark_max"]) == (None, 40_000, 120_000)
    old = {key: value for key, value in policy.items() if key not in ("mark_min", "mark_max")}
    client.put(f"{PATH}?wait_s=0", json={**old, "scheme": "dctcp"}, headers=bearer)
    policy = client.get(PATH).json["current"]["policy"]
    assert (policy["mark_at"], policy["mark_min"], policy["mark_max"]) == (97_500, None, None)


@pytest.mark.parametrize("scheme", ["pfabric", "d3"])
def test_change_policy__what_the_ports_cannot_do_is_refused_with_the_remedy(
    client: Client, bearer: dict[str, str], scheme: str
) -> None:
    answer = client.put(f"{PATH}?wait_s=0", json={"scheme": scheme}, headers=bearer)
    assert answer.status_code == 422
    assert answer.json["error"]["field"] == "scheme"
    assert f"{scheme} needs " in answer.json["error"]["problem"]
    assert "--on simulator" in answer.json["error"]["problem"]
    assert client.get(PATH).json["current"] is None


def test_change_policy__what_does_without_is_taken(client: Client, bearer: dict[str, str]) -> None:
    document = {"scheme": "sluice", "flow_queues": False, "shares": []}
    answer = client.put(f"{PATH}?wait_s=0", json=document, headers=bearer)
    assert answer.status_code == 202
    assert (answer.json["policy"]["shares"], answer.json["policy"]["flow_queues"]) == (None, False)


def test_change_policy__overrides_are_part_of_the_document_and_their_bad_fields_are_named(
    client: Client, bearer: dict[str, str]
) -> None:
    overrides: list[dict[str, Any]] = [
        {"ports": ["*"], "freeze": True},
        {"ports": ["s1:2"], "thresholds": ["10KB"]},
    ]
    document = {"scheme": "mlfq-adaptive", "queues": 2, "thresholds": ["1MB"], "overrides": overrides}
    answer = client.put(f"{PATH}?wait_s=0", json=document, headers=bearer)
    assert answer.status_code == 202
    assert answer.json["policy"]["overrides"] == [overrides[0], {"ports": ["s1:2"], "thresholds": [10_000]}]
    overrides[1]["ports"] = ["s1"]
    answer = client.put(f"{PATH}?wait_s=0", json=document, headers=bearer)
    assert answer.status_code == 422
    assert answer.json["error"]["field"] == "overrides[1].ports"


def test_change_policy__leaves_an_event(client: Client, engine: Engine, bearer: dict[str, str]) -> None:
    client.put(f"{PATH}?wait_s=0", json={"scheme": "tcp"}, headers=bearer)
    event = newest_events(engine, 1)[0]
    assert (event["kind"], event["document"]) == (
        "policy-requested",
        {"version": 1, "scheme": "tcp", "by": "owner"},
    )


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({}, "scheme"),
        ({"scheme": "magic"}, "scheme"),
        ({"scheme": None}, "scheme"),
        ({"scheme": ["tcp"]}, "scheme"),
        ([], "policy"),
        ("tcp", "policy"),
        (None, "policy"),
        ({"scheme": "tcp", "speed": 1}, "speed"),
        ({"scheme": "tcp", "queues": 2}, "queues"),
        ({"scheme": "pias", "queues": 9}, "queues"),
        ({"scheme": "pias", "queues": True}, "queues"),
        ({"scheme": "pias", "queues": 3}, "thresholds"),
        ({"scheme": "pias", "queues": 3, "thresholds": [5000, 5000]}, "thresholds"),
        ({"scheme": "pias", "queues": 3, "thresholds": ["20KB", "10KB"]}, "thresholds"),
        ({"scheme": "pias", "queues": 2, "thresholds": ["1" + "0" * 5000 + "KB"]}, "thresholds"),
        ({"scheme": "mlfq-adaptive", "window_ms": -1}, "window_ms"),
        ({"scheme": "mlfq-adaptive", "percentiles": [101]}, "percentiles"),
        ({"scheme": "pias", "percentiles": False}, "percentiles"),
        ({"scheme": "tcp", "mark_at": 1000}, "mark_at"),
        ({"scheme": "dctcp", "mark_min": 1000}, "mark_min"),
        ({"scheme": "datcp", "mark_at": 1000}, "mark_at"),
        ({"scheme": "datcp", "mark_max": "360KB"}, "mark_max"),
    ],
)
def test_change_policy__a_bad_document_is_a_422_that_names_the_field(
    client: Client, bearer: dict[str, str], document: Any, field: str
) -> None:
    answer = client.put(PATH, data=json.dumps(document), content_type="application/json", headers=bearer)
    assert answer.status_code == 422
    assert answer.json["error"]["field"] == field
    assert 0 < len(answer.json["error"]["problem"]) <= 400
    assert client.get(PATH).json["current"] is None


@pytest.mark.parametrize("query", ["wait_s=-1", "wait_s=31", "wait_s=nan", "wait_s=x", "wait_s="])
def test_change_policy__a_bad_wait_is_a_422(client: Client, bearer: dict[str, str], query: str) -> None:
    answer = client.put(f"{PATH}?{query}", json={"scheme": "tcp"}, headers=bearer)
    assert answer.status_code == 422
    assert answer.json["error"]["field"] == "wait_s"
    assert client.get(PATH).json["current"] is None


def test_wait_applied__ends_when_a_newer_policy_replaces_it(engine: Engine) -> None:
    old = put_policy(engine, Policy.from_document({"scheme": "tcp"}), "test")
    put_policy(engine, Policy.from_document({"scheme": "dctcp"}), "test")
    began = time.monotonic()
    assert wait_applied(engine, old, 30, threading.Event()).applied_at is None
    assert time.monotonic() - began < 10


def test_wait_applied__ends_when_the_process_stops(engine: Engine) -> None:
    version = put_policy(engine, Policy.from_document({"scheme": "tcp"}), "test")
    stopping = threading.Event()
    stopping.set()
    began = time.monotonic()
    assert wait_applied(engine, version, 30, stopping).version == version
    assert time.monotonic() - began < 10


def test_change_policy__names_of_ports_that_the_network_lacks_are_warnings(
    client: Client, engine: Engine, bearer: dict[str, str]
) -> None:
    document = {"scheme": "mlfq-adaptive", "overrides": [{"ports": ["s1:2", "s1:9"], "freeze": True}]}
    path = f"{PATH}?wait_s=0"
    assert client.put(path, json=document, headers=bearer).json["warnings"] == []
    put_topology(engine, topologies.build("single", hosts=2))
    answer = client.put(path, json=document, headers=bearer)
    assert answer.status_code == 202
    (warning,) = answer.json["warnings"]
    assert warning.startswith('overrides[0].ports: the network has no port "s1:9"')
    assert answer.json["policy"]["overrides"] == document["overrides"]
