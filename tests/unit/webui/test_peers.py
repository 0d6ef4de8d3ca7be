# SPDX-License-Identifier: Apache-2.0
"""Who may ask the web process: peers, origins, names of hosts, tokens."""

import os
import socket
import time
from typing import Any, cast

import pytest
from sqlalchemy import Engine

from sluice.policy.wire.records import FlowRecord
from sluice.store.access import create_token, revoke_token
from sluice.store.observed import events_after, newest_events
from sluice.webui.access import CHANNEL, Channel, allowed_hosts, foreign_record, host_of, uid_of
from sluice.webui.app import create_app
from tests.kit.heartbeats import document, host_heartbeat
from tests.unit.webui.conftest import TOKEN, Client
from tests.unit.webui.records import record

NOBODY = 65_534


def test_unix_socket__the_user_who_connected() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert uid_of(ours) == os.geteuid()
    assert uid_of(ours) is None


@pytest.mark.parametrize(("uid", "reported"), [(None, []), (NOBODY, ["agent-refused"])])
def test_agent__of_an_unknown_user_is_refused_and_of_another_user_reported(
    client: Client, engine: Engine, uid: int | None, reported: list[str]
) -> None:
    """A connection has no user once it has ended: the agent did not wait for its answer."""
    channel = Channel(is_unix=True, uid=lambda: uid)
    beat = document(host_heartbeat())
    answer = client.post("/api/v1/agents/h1", json=beat, environ_overrides={CHANNEL: channel})
    assert (answer.status_code, answer.json["error"]["code"]) == (403, "agents-only")
    assert [row["kind"] for row in newest_events(engine, 5)] == reported


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
@pytest.mark.parametrize("user", [0, NOBODY])
def test_loopback__the_user_who_owns_the_other_end(
    family: socket.AddressFamily, host: str, user: int
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; run as root")
    with socket.create_server((host, 0), family=family) as listener:
        address = listener.getsockname()
        os.seteuid(user)
        try:
            client = socket.create_connection(address[:2])
        finally:
            os.seteuid(0)
        connection, _ = listener.accept()
        with client, connection:
            assert uid_of(connection) == user
            client.close()
            assert uid_of(connection) is None, "no one waits for the answer"


RECEIVED = {"source": "watched", "retransmissions": None, "ideal_us": None}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"src": "me", "dst": "h2"}, ""),
        ({"src": "me", "dst": "me"}, ""),
        ({"src": "me", "source": "background"}, ""),
        ({"src": "h1", "dst": "h2"}, "no end of the flow h1 > h2"),
        ({"dst": "me"}, "its sender records it"),
        ({"dst": "me", "source": "watched"}, "its sender records it"),
        ({"dst": "me", **RECEIVED}, ""),
        ({"dst": "me", **RECEIVED, "deadline_us": 1.0, "met": False}, "cannot have deadline_us"),
        ({"dst": "me", **RECEIVED, "timeouts": 0}, "cannot have timeouts"),
    ],
)
def test_foreign_record(changes: dict[str, Any], wrong: str) -> None:
    problem = foreign_record("me", FlowRecord.from_document(record("f", **changes)))
    assert wrong in problem
    assert bool(problem) == bool(wrong)


ENDPOINTS = ("/", "/metrics", "/api/v1/health", "/api/v1/policy", "/openapi/openapi.json", "/nothing")


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost", "localhost"),
        ("LocalHost.:8080", "localhost"),
        ("[::1]:8080", "::1"),
        ("192.0.2.1:80", "192.0.2.1"),
        ("", None),
        ("a b:x", None),
        ("localhost/evil", None),
        ("localhost@evil.example", None),
        ("[::1", None),
    ],
)
def test_host_of(header: str, name: str | None) -> None:
    assert host_of(header) == name


def test_allowed_hosts__loopback_the_listen_addresses_and_the_setting() -> None:
    found = allowed_hosts(["192.0.2.1:8080", "[2001:db8::1]:80"], ["Sluice.example."])
    assert found == {"localhost", "127.0.0.1", "::1", "192.0.2.1", "2001:db8::1", "sluice.example"}


@pytest.mark.parametrize("host", ["evil.example:8080", "127.0.0.1.evil.example", "10.9.8.7", "@"])
def test_a_foreign_name_gets_421_that_names_the_setting(client: Client, host: str) -> None:
    for path in ENDPOINTS:
        answer = client.get(path, headers={"Host": host})
        assert answer.status_code == 421
        error = answer.json["error"]
        assert (error["code"], error["field"]) == ("foreign-host", "Host")
        assert "allowed_hosts" in error["problem"]


def test_names_of_the_setting_are_answered(engine: Engine) -> None:
    app = create_app(engine, TOKEN, hosts=allowed_hosts((), ["sluice.example"]))
    client = cast(Client, app.test_client())
    assert client.get("/api/v1/health", headers={"Host": "sluice.example:8080"}).status_code == 200
    assert client.get("/api/v1/health", headers={"Host": "other.example"}).status_code == 421


def test_the_address_of_the_connection_is_answered_and_a_unix_socket_takes_any_name(client: Client) -> None:
    came_in = {"SERVER_NAME": "192.0.2.7", "HTTP_HOST": "192.0.2.7:8080"}
    assert client.get("/api/v1/health", environ_overrides=came_in).status_code == 200
    unix = {"REMOTE_ADDR": "", "HTTP_HOST": "evil.example"}
    assert client.get("/api/v1/health", environ_overrides=unix).status_code == 200


# ── Tokens ───────────────────────────────────────────────────────────────────────────────────────────────────────────


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
    ("PUT", "ports/s1:2/override", {"freeze": True}),
    *[("POST", f"runs{path}", {}) for path in ("", "/check", "/cancellation")],
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


def test_the_audit_log_has_what_callers_did_besides(
    client: Client, engine: Engine, bearer: dict[str, str]
) -> None:
    alice = made(client, bearer, "alice", "change")
    network = {"switch": [{"name": "s1", "datapath_id": "1", "port": [{"name": "eth1"}]}]}
    assert client.put("/api/v1/network", json=network, headers=alice).status_code == 200
    assert client.open("/api/v1/network", method="DELETE", headers=alice).status_code == 200
    assert client.open("/api/v1/network", method="DELETE").status_code == 401
    acts = client.get("/api/v1/audit", headers=alice).json["acts"]
    assert [(act["kind"], act["by"], act["document"]) for act in acts] == [
        ("network-withdrawn", "alice", {"version": 2}),
        ("network-described", "alice", {"version": 1}),
        ("token-made", "owner", {"name": "alice", "role": "change"}),
    ]
    assert {act["address"] for act in acts} == {"127.0.0.1"}
    events = {row["kind"]: row["document"] for row in events_after(engine, 0)}
    assert events["network-described"] == {"version": 1, "by": "alice"}
