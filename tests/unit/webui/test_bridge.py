# SPDX-License-Identifier: Apache-2.0
"""The HTTP server in front of the views, in this process and on a port of its own."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable
from functools import partial

import pytest
from flask import Flask

from sluice.webui import bridge as bridge_module
from sluice.webui.access import Channel
from sluice.webui.api import MAX_BODY_BYTES
from sluice.webui.bridge import PLAIN, Bridge, kind_of
from sluice.webui.services import EXTENSION, Services, StreamPlaces
from tests.unit.webui.conftest import TOKEN
from tests.unit.webui.records import record


class Reply:
    """What a client gets."""

    def __init__(self, answer: bytes) -> None:
        head, _, self.body = answer.partition(b"\r\n\r\n")
        line, *headers = head.decode().split("\r\n")
        self.status = int(line.split()[1])
        self.headers = dict(header.lower().split(": ", 1) for header in headers)

    @property
    def code(self) -> str:
        return str(json.loads(self.body)["error"]["code"])


def request(
    method: str, path: str, body: bytes = b"", length: int | None = None, *, token: bool = True
) -> bytes:
    """Return the request; with a `length`, more body may be announced than comes."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    authorization = f"Authorization: Bearer {TOKEN}\r\n" if token else ""
    return (
        f"{head}{authorization}Content-Length: {len(body) if length is None else length}\r\n\r\n".encode()
        + body
    )


def call(app: Flask, *requests: bytes) -> list[Reply]:
    """Send requests at the same time."""

    async def one(port: int, request: bytes) -> Reply:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = Reply(head).headers.get("content-length")
        body = await (reader.read() if length is None else reader.readexactly(int(length)))
        writer.close()
        return Reply(head + body)

    async def everything() -> list[Reply]:
        with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
            listener.setblocking(False)
            bridge = Bridge(app, 2, 1000)
            bridge.listen(PLAIN, listener)
            port = listener.getsockname()[1]
            try:
                return list(await asyncio.gather(*(one(port, request) for request in requests)))
            finally:
                await bridge.end(0.0)

    return asyncio.run(everything())


def test_a_view_gets_the_whole_body_and_its_answer_comes_back(app: Flask) -> None:
    stored, listed, health = call(
        app,
        request("POST", "/api/v1/flows", json.dumps([record("f")]).encode()),
        request("GET", "/nothing"),
        request("GET", "/health"),
    )
    assert (stored.status, json.loads(stored.body)) == (200, {"accepted": 1, "known": 0})
    assert stored.headers["content-type"] == "application/json"
    assert (listed.status, listed.code) == (404, "not-found")
    assert json.loads(health.body)["store"]["reachable"]


def test_a_slow_body_is_a_408_and_holds_no_thread(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge_module, "BODY_S", 0.05)
    slow = [request("POST", "/api/v1/flows", b"[", 100)] * 20
    *late, health = call(app, *slow, request("GET", "/api/v1/health"))
    assert {(reply.status, reply.code) for reply in late} == {(408, "too-slow")}
    assert late[0].headers["connection"] == "close"
    assert health.status == 200


def test_linger__while_many_are_refused_their_connections_end_later(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge_module, "LINGER_S", 3600)
    monkeypatch.setattr(bridge_module, "MOST_PARKED", 15)
    later: list[Callable[[], None]] = []
    number = bridge_module.MOST_LINGERING + 20

    async def refuse_all() -> None:
        bridge = Bridge(app, 2, 1000)
        monkeypatch.setattr(bridge.loop, "call_later", lambda _, end, one: later.append(partial(end, one)))
        pairs = [socket.socketpair() for _ in range(number)]
        for ours, theirs in pairs:
            theirs.setblocking(False)
            ours.setblocking(False)
            bridge.linger(ours)
            ours.close()
            await asyncio.sleep(0)
        assert bridge.parked == len(later) == 15
        for end in later:
            end()
        ends = [asyncio.get_running_loop().sock_recv(theirs, 1) for _, theirs in pairs]
        assert await asyncio.gather(*ends) == [b""] * number
        assert bridge.parked == 0
        for _, theirs in pairs:
            theirs.close()

    asyncio.run(refuse_all())


def test_a_long_body_is_a_413(app: Flask) -> None:
    [reply] = call(app, request("PUT", "/api/v1/policy", b" " * (MAX_BODY_BYTES + 1)))
    assert (reply.status, reply.code) == (413, "too-large")


def test_too_many_bodies_at_a_time_are_a_503(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge_module, "HELD_BYTES", 10)
    [reply] = call(app, request("POST", "/api/v1/flows", b" " * 11))
    assert (reply.status, reply.code) == (503, "busy")
    assert reply.headers["retry-after"] == "5"


def test_too_many_requests_of_a_kind_are_a_503_for_this_kind(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge_module, "MOST_WAITING", 0)
    [reply] = call(app, request("GET", "/api/v1/flows"))
    assert (reply.status, reply.code) == (503, "busy")
    assert b"(reads)" in reply.body


def test_streams__are_served_without_a_thread_each(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads are counted as they start, because they end with the test."""
    started, start = list[str](), threading.Thread.start

    def counted(thread: threading.Thread) -> None:
        started.append(thread.name)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", counted)
    replies = call(app, *[request("GET", "/api/v1/events?count=1")] * 40)
    assert all(
        b"event: snapshot" in reply.body and reply.body.endswith(b"\r\n0\r\n\r\n") for reply in replies
    )
    assert sum(name.startswith("streams") for name in started) == 1


@pytest.mark.parametrize(("token", "remedy"), [(True, b"raise the setting"), (False, b"send a token")])
def test_streams__too_many_are_a_429_and_a_place_is_free_again_after_the_end(
    app: Flask, token: bool, remedy: bytes
) -> None:
    found: Services = app.extensions[EXTENSION]
    found.streams = StreamPlaces(1 if token else 16)
    again = request("GET", "/api/v1/events?count=1", token=token)
    leave = found.streams.take(token)
    [refused] = call(app, again)
    assert (refused.status, refused.code) == (429, "too-many-streams")
    assert refused.headers["retry-after"] == "5"
    assert remedy in refused.body
    assert b"most_streams" in refused.body
    leave()
    for _ in range(2):
        assert [reply.status for reply in call(app, again)] == [200]


@pytest.mark.parametrize(
    ("method", "path", "channel", "kind"),
    [
        ("POST", "/api/v1/flows", Channel(is_unix=True), "agents"),
        ("POST", "/api/v1/agents/h1", Channel(is_agents=True, certificate=b"x"), "agents"),
        ("POST", "/api/v1/agents/s", Channel(), "local-agents"),
        ("GET", "/api/v1/health", Channel(), "health"),
        ("GET", "/api/v1/events", Channel(), "streams"),
        ("GET", "/api/v1/flows", Channel(), "reads"),
        ("PUT", "/api/v1/policy", Channel(), "changes"),
    ],
)
def test_kind_of__each_kind_has_threads_of_its_own(
    method: str, path: str, channel: Channel, kind: str
) -> None:
    assert kind_of(method, path, channel) == kind
