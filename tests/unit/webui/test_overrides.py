# SPDX-License-Identifier: Apache-2.0
"""The override of one port through the API."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine

from sluice.policy.schema.desired import Policy
from sluice.store.desired import current_policy, current_version, policy_changes, put_policy, put_topology
from sluice.webui import policies
from tests.kit.known import known
from tests.unit.webui.conftest import Client
from tests.web.synthetic import leaf_spine

PATH = "/api/v1/ports/s1:2/override?wait_s=0"
FIXED = {"thresholds": ["10KB", 20_000, "30KB"]}


@pytest.fixture(autouse=True)
def network(engine: Engine) -> None:
    put_topology(engine, leaf_spine())
    put_policy(
        engine, Policy.from_document({"scheme": "mlfq-adaptive", "queues": 4, "buffer": "60KB"}), "test"
    )


def in_force(engine: Engine) -> Policy:
    return known(current_policy(engine)).policy


def test_put_override__fixes_then_freezes_the_port_and_keeps_the_rest(
    client: Client, engine: Engine, bearer: dict[str, str]
) -> None:
    answer = client.put(PATH, json=FIXED, headers=bearer)
    assert (answer.status_code, answer.json["version"]) == (202, 2)
    assert in_force(engine).fixed_at("s1:2") == (10_000, 20_000, 30_000)
    assert in_force(engine).buffer == 60_000
    client.put(PATH, json={"freeze": True}, headers=bearer)
    assert in_force(engine).is_frozen("s1:2")
    assert len(in_force(engine).overrides) == 1
    assert [(change.by, change.changed) for change in policy_changes(engine)] == [
        ("owner", ("overrides",)),
        ("owner", ("overrides",)),
    ]


def test_delete_override__the_port_follows_the_policy_again(
    client: Client, engine: Engine, bearer: dict[str, str]
) -> None:
    client.put(PATH, json={"freeze": True}, headers=bearer)
    assert client.open(PATH, method="DELETE", headers=bearer).status_code == 202
    assert in_force(engine).overrides == ()
    answer = client.open(PATH, method="DELETE", headers=bearer)
    assert (answer.status_code, answer.json["error"]["problem"]) == (422, "no override names s1:2 itself")


def test_put_override__needs_the_role_change(client: Client, engine: Engine) -> None:
    assert client.put(PATH, json=FIXED).status_code == 401
    assert current_version(engine) == 1


@pytest.mark.parametrize(
    ("body", "field", "problem"),
    [
        ({"thresholds": ["10KB"]}, "thresholds", "3"),
        ({"thresholds": ["30KB", "20KB", "10KB"]}, "thresholds", "increase"),
        ({"thresholds": ["10KB", "x", "30KB"]}, "thresholds", "x"),
        ({"freeze": False}, "override", "either"),
        ({}, "override", "either"),
        ([], "override", "object"),
        ({"ports": ["s2:1"], "freeze": True}, "ports", "not a key"),
    ],
)
def test_put_override__names_the_key_as_the_request_wrote_it(
    client: Client, engine: Engine, bearer: dict[str, str], body: Any, field: str, problem: str
) -> None:
    error = client.put(PATH, json=body, headers=bearer).json["error"]
    assert error["field"] == field
    assert problem in error["problem"]
    assert current_version(engine) == 1


def test_put_override__a_port_that_the_network_lacks(client: Client, bearer: dict[str, str]) -> None:
    answer = client.put("/api/v1/ports/s1:22/override", json=FIXED, headers=bearer)
    assert answer.status_code == 404
    assert "did you mean s1:2?" in answer.json["error"]["problem"]


def test_put_override__a_scheme_that_does_not_adapt_cannot_freeze(
    client: Client, engine: Engine, bearer: dict[str, str]
) -> None:
    put_policy(engine, Policy.from_document({"scheme": "pias"}), "test")
    answer = client.put(PATH, json={"freeze": True}, headers=bearer)
    assert answer.status_code == 422
    assert "does not adapt" in answer.json["error"]["problem"]


def test_put_override__a_change_at_the_same_moment_is_not_undone(
    client: Client, engine: Engine, bearer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_then_change(store: Engine) -> Any:
        found = current_policy(store)
        put_policy(store, Policy.from_document({"scheme": "pias"}), "someone else")
        return found

    monkeypatch.setattr(policies, "policy_in_force", read_then_change)
    answer = client.put(PATH, json=FIXED, headers=bearer)
    assert (answer.status_code, answer.json["error"]["code"]) == (409, "policy-changed")
    assert in_force(engine).scheme == "pias"


def test_put_override__before_the_first_policy(
    client: Client, bearer: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "policy_in_force", lambda _engine: None)
    assert client.put(PATH, json=FIXED, headers=bearer).json["error"]["code"] == "no-policy"
