# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import cast

import pytest
from sqlalchemy import Engine

from sluice.webui.access import allowed_hosts, host_of
from sluice.webui.app import create_app
from tests.unit.webui.conftest import TOKEN, Client

ENDPOINTS = ("/", "/metrics", "/api/v1/health", "/api/v1/policy", "/openapi/openapi.json", "/nothing")


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost", "localhost"),
        ("LocalHost.:8080", "localhost"),
        ("[::1]:8080", "::1"),
        ("192.0.2.1:80", "192.0.2.1"),
        ("", None),
        (":80", None),
        ("a b:x", None),
        ("localhost:x", None),
        ("localhost/evil", None),
        ("localhost#evil", None),
        ("localhost@evil.example", None),
        ("[::1", None),
    ],
)
def test_host_of(header: str, name: str | None) -> None:
    assert host_of(header) == name


def test_allowed_hosts__loopback_the_listen_addresses_and_the_setting() -> None:
    found = allowed_hosts(["192.0.2.1:8080", "[2001:db8::1]:80"], ["Sluice.example."])
    assert found == {"localhost", "127.0.0.1", "::1", "192.0.2.1", "2001:db8::1", "sluice.example"}


@pytest.mark.parametrize("path", ENDPOINTS)
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "10.9.8.7", "@"]
)
def test_a_foreign_name_gets_421_that_names_the_setting(client: Client, path: str, host: str) -> None:
    answer = client.get(path, headers={"Host": host})
    assert answer.status_code == 421
    error = answer.json["error"]
    assert (error["code"], error["field"]) == ("foreign-host", "Host")
    assert "allowed_hosts" in error["problem"]


@pytest.mark.parametrize("host", ["localhost:1234", "127.0.0.1", "[::1]:8080", "LOCALHOST"])
def test_loopback_names_are_answered(client: Client, host: str) -> None:
    assert client.get("/api/v1/health", headers={"Host": host}).status_code == 200


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
