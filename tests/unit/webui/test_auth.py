# SPDX-License-Identifier: Apache-2.0


import time

import pytest
from sqlalchemy import Engine

from sluice.store.access import create_token, revoke_token
from sluice.store.observed import events_after
from tests.unit.webui.conftest import Client


@pytest.mark.parametrize(
    "header",
    [None, "Bearer ", "Bearer the-toke", "Basic the-token", "the-token", "Bearer the-token x", "Bearer \xe4"],
)
def test_changing_the_policy_without_the_token_is_a_401_and_changes_nothing(
    client: Client, header: str | None
) -> None:
    headers = {} if header is None else {"Authorization": header}
    answer = client.put("/api/v1/policy", json={"scheme": "tcp"}, headers=headers)
    assert (answer.status_code, answer.json["error"]["code"]) == (401, "unauthorised")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert client.get("/api/v1/policy").json == {"current": None, "history": []}


def bearing(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def made(client: Client, bearer: dict[str, str], name: str, role: str) -> dict[str, str]:
    """Make a token through the API, and return the header with it."""
    answer = client.post("/api/v1/tokens", json={"name": name, "role": role, "valid_s": 60}, headers=bearer)
    assert answer.status_code == 200, answer.text
    return bearing(answer.json["token"])


CHANGES = [
    ("PUT", "policy", {"scheme": "tcp"}),
    ("PUT", "network", {}),
    ("DELETE", "network", None),
    ("POST", "enrolments", {"name": "h1"}),
    ("POST", "agents/h1/revocation", None),
    ("POST", "tokens", {"name": "more", "role": "change", "valid_s": 60}),
    ("POST", "tokens/reader/revocation", None),
    ("GET", "tokens", None),
]


def test_a_reader_changes_nothing(client: Client, bearer: dict[str, str]) -> None:
    reader = made(client, bearer, "reader", "read")
    for method, path, body in CHANGES:
        answer = client.open(f"/api/v1/{path}?wait_s=0", method=method, json=body, headers=reader)
        assert answer.status_code == 403
        assert "this token has the role read" in answer.json["error"]["problem"]
    assert client.get("/api/v1/policy").json["current"] is None


def test_a_changer_changes_the_policy_but_makes_no_tokens(client: Client, bearer: dict[str, str]) -> None:
    alice = made(client, bearer, "alice", "change")
    put = client.put("/api/v1/policy?wait_s=0", json={"scheme": "tcp"}, headers=alice)
    assert put.status_code == 202
    more = {"name": "more", "role": "change", "valid_s": 60}
    assert client.post("/api/v1/tokens", json=more, headers=alice).status_code == 403
    assert client.post("/api/v1/tokens/alice/revocation", headers=alice).status_code == 403


def test_a_token_that_ended_or_was_revoked_is_a_401(
    client: Client, engine: Engine, bearer: dict[str, str]
) -> None:
    ended = create_token(engine, "old", "change", time.time() - 1)
    alice = made(client, bearer, "alice", "change")
    assert client.post("/api/v1/tokens/alice/revocation", headers=bearer).status_code == 200
    for header in (bearing(ended), alice):
        assert client.put("/api/v1/policy", json={"scheme": "tcp"}, headers=header).status_code == 401
    assert client.post("/api/v1/tokens/alice/revocation", headers=bearer).status_code == 404
    assert not revoke_token(engine, "alice")


def test_the_list_and_the_events_show_no_secret(
    client: Client, engine: Engine, bearer: dict[str, str]
) -> None:
    token = made(client, bearer, "alice", "change")["Authorization"].removeprefix("Bearer ")
    listed = client.get("/api/v1/tokens", headers=bearer)
    assert [(one["name"], one["role"], one["state"]) for one in listed.json["tokens"]] == [
        ("alice", "change", "valid")
    ]
    seen = listed.text + str(events_after(engine, 0))
    assert "token-made" in seen
    assert all(part not in seen for part in token.split("-", 2)[1:])


def test_a_name_in_force_is_a_409(client: Client, bearer: dict[str, str]) -> None:
    made(client, bearer, "alice", "read")
    again = client.post(
        "/api/v1/tokens", json={"name": "alice", "role": "read", "valid_s": 9}, headers=bearer
    )
    assert again.status_code == 409


def test_a_change_is_in_the_audit_log_with_its_author(
    client: Client, engine: Engine, bearer: dict[str, str]
) -> None:
    alice, reader = made(client, bearer, "alice", "change"), made(client, bearer, "wall", "read")
    client.put("/api/v1/policy?wait_s=0", json={"scheme": "tcp"}, headers=bearer)
    client.put("/api/v1/policy?wait_s=0", json={"scheme": "dctcp", "acts_at": []}, headers=alice)
    assert client.put("/api/v1/policy", json={"scheme": "nosuch"}, headers=alice).status_code == 422
    newest, first = client.get("/api/v1/audit", headers=reader).json["changes"]
    assert (newest["by"], newest["address"], newest["version"], newest["before"]) == (
        "alice",
        "127.0.0.1",
        2,
        1,
    )
    assert {"scheme", "acts_at"} <= set(newest["changed"])
    assert "queues" not in newest["changed"]
    assert newest["at"] == pytest.approx(time.time(), abs=60)
    assert (first["by"], first["before"]) == ("owner", None)
    assert client.get("/api/v1/audit").status_code == 401
    requested = [row["document"] for row in events_after(engine, 0) if row["kind"] == "policy-requested"]
    assert [document["by"] for document in requested] == ["owner", "alice"]
