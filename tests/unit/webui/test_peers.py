# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import socket

import pytest
from sqlalchemy import Engine

from sluice.store.observed import newest_events
from sluice.webui.callers import CHANNEL, Channel, uid_of
from tests.kit.heartbeats import document, host_heartbeat
from tests.unit.webui.conftest import Client

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
