# SPDX-License-Identifier: Apache-2.0
"""What a port keeps: overrides and sanctions."""

from typing import Any

import pytest
from sqlalchemy import Engine

from sluice.policy.schema.desired import Policy
from sluice.store import desired
from sluice.store.desired import current_policy, current_version, policy_changes, put_policy, put_topology
from sluice.store.observed import lift_sanctions, put_sanction
from tests.kit.known import known
from tests.unit.webui.conftest import Client, scrape
from tests.web.synthetic import demotion, leaf_spine

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


def test_put_override__fixes_then_freezes_the_port_and_keeps_the_rest(owner: Client, engine: Engine) -> None:
    answer = owner.put(PATH, json=FIXED)
    assert (answer.status_code, answer.json["version"]) == (202, 2)
    assert in_force(engine).fixed_at("s1:2") == (10_000, 20_000, 30_000)
    assert in_force(engine).buffer == 60_000
    owner.put(PATH, json={"freeze": True})
    assert in_force(engine).is_frozen("s1:2")
    assert len(in_force(engine).overrides) == 1
    assert [(change.by, change.changed) for change in policy_changes(engine)] == [
        ("owner", ("overrides",)),
        ("owner", ("overrides",)),
    ]


def test_delete_override__the_port_follows_the_policy_again(owner: Client, engine: Engine) -> None:
    owner.put(PATH, json={"freeze": True})
    assert owner.open(PATH, method="DELETE").status_code == 202
    assert in_force(engine).overrides == ()
    answer = owner.open(PATH, method="DELETE")
    assert (answer.status_code, answer.json["error"]["problem"]) == (422, "no override names s1:2 itself")


@pytest.mark.parametrize(
    ("body", "field", "problem"),
    [
        ({"thresholds": ["10KB"]}, "thresholds", "3"),
        ({"thresholds": ["30KB", "20KB", "10KB"]}, "thresholds", "increase"),
        ({}, "override", "either"),
        ({"ports": ["s2:1"], "freeze": True}, "ports", "not a key"),
    ],
)
def test_put_override__names_the_key_as_the_request_wrote_it(
    owner: Client, engine: Engine, body: Any, field: str, problem: str
) -> None:
    error = owner.put(PATH, json=body).json["error"]
    assert error["field"] == field
    assert problem in error["problem"]
    assert current_version(engine) == 1


def test_put_override__a_port_that_the_network_lacks(owner: Client) -> None:
    answer = owner.put("/api/v1/ports/s1:22/override", json=FIXED)
    assert answer.status_code == 404
    assert "did you mean s1:2?" in answer.json["error"]["problem"]


def test_put_override__a_scheme_that_does_not_adapt_cannot_freeze(owner: Client, engine: Engine) -> None:
    put_policy(engine, Policy.from_document({"scheme": "pias"}), "test")
    answer = owner.put(PATH, json={"freeze": True})
    assert answer.status_code == 422
    assert "does not adapt" in answer.json["error"]["problem"]


def test_put_override__a_change_at_the_same_moment_is_not_undone(
    owner: Client, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_then_change(store: Engine) -> Any:
        found = current_policy(store)
        put_policy(store, Policy.from_document({"scheme": "pias"}), "someone else")
        return found

    monkeypatch.setattr(desired, "policy_in_force", read_then_change)
    answer = owner.put(PATH, json=FIXED)
    assert (answer.status_code, answer.json["error"]["code"]) == (409, "policy-changed")
    assert in_force(engine).scheme == "pias"


def test_sanctions_and_metrics__who_is_demoted_now(client: Client, engine: Engine) -> None:
    assert client.get("/api/v1/sanctions").json == {"sanctions": []}
    assert "sluice_host_demoted" not in scrape(client)
    demoted = demotion()
    put_sanction(engine, demoted)
    assert client.get("/api/v1/sanctions").json == {"sanctions": [vars(demoted)]}
    assert scrape(client)["sluice_host_demoted"] == {(("host", "h2"), ("port", "s1:2")): 1.0}
    lift_sanctions(engine, ["s1:2"])
    assert "sluice_host_demoted" not in scrape(client)
