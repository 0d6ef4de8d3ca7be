# SPDX-License-Identifier: Apache-2.0
"""The gateway between the server's front and the views, called as an ASGI server calls it."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from flask import Flask

from policy.captures import MAX_RESULT_BYTES
from tests.unit.webui.conftest import TOKEN
from tests.unit.webui.records import record
from webui import gateway as gateway_module
from webui.bodies import MAX_BODY_BYTES, MAX_FLOWS_BODY_BYTES
from webui.channel import CHANNEL, Channel
from webui.event_stream import StreamPlaces
from webui.gateway import AT_ONCE, Gateway, Message, most_body_bytes
from webui.pools import AGENTS, CHANGES, HEALTH, LOCAL_AGENTS, READS, STREAMS, kind_of
from webui.services import EXTENSION, Services


class Reply:
    """What a client gets."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.is_complete = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message["body"]
            self.is_complete = not message.get("more_body", False)

    @property
    def code(self) -> str:
        return str(json.loads(self.body)["error"]["code"])


def call(app: Flask, *requests: tuple[str, str, Any]) -> list[Reply]:
    """Send requests at the same time, each (method, path, body); a body that never comes is None."""

    async def one(gateway: Gateway, method: str, path: str, body: bytes | None) -> Reply:
        reply, pieces = Reply(), [body]

        async def receive() -> dict[str, Any]:
            piece = pieces.pop() if pieces else None
            if piece is None:
                await asyncio.sleep(3600)
            return {"type": "http.request", "body": piece, "more_body": False}

        path, _, query = path.partition("?")
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        headers.append((b"authorization", f"Bearer {TOKEN}".encode()))
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "http_version": "1.1",
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 5),
            "headers": headers,
            "extensions": {CHANNEL: Channel()},
        }
        await gateway(scope, receive, reply.send)
        return reply

    async def everything() -> list[Reply]:
        gateway = Gateway(app, 2)
        try:
            return list(await asyncio.gather(*(one(gateway, *request) for request in requests)))
        finally:
            gateway.close()

    return asyncio.run(everything())


def test_a_view_gets_the_whole_body_and_its_answer_comes_back(app: Flask) -> None:
    [stored, listed] = call(
        app, ("POST", "/api/v1/flows", json.dumps([record("f")]).encode()), ("GET", "/nothing", b"")
    )
    assert (stored.status, json.loads(stored.body)) == (200, {"accepted": 1, "known": 0})
    assert stored.headers["content-type"] == "application/json"
    assert (listed.status, listed.code) == (404, "not-found")


def test_a_slow_body_is_a_408_and_holds_no_thread(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_module, "BODY_S", 0.05)
    slow = [("POST", "/api/v1/flows", None)] * 50
    *late, health = call(app, *slow, ("GET", "/api/v1/health", b""))
    assert {(reply.status, reply.code) for reply in late} == {(408, "too-slow")}
    assert late[0].headers["connection"] == "close"
    assert health.status == 200


def test_a_long_body_is_a_413(app: Flask) -> None:
    [reply] = call(app, ("PUT", "/api/v1/policy", b" " * (MAX_BODY_BYTES + 1)))
    assert (reply.status, reply.code) == (413, "too-large")


def test_too_many_bodies_at_a_time_are_a_503(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_module, "HELD_BYTES", 10)
    [reply] = call(app, ("POST", "/api/v1/flows", b" " * 11))
    assert (reply.status, reply.code) == (503, "busy")
    assert reply.headers["retry-after"] == "5"


def test_streams__are_served_without_a_thread_each(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads are counted as they start, because they end with the gateway."""
    started, start = list[str](), threading.Thread.start

    def counted(thread: threading.Thread) -> None:
        started.append(thread.name)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", counted)
    replies = call(app, *[("GET", "/api/v1/events?count=1", b"")] * 40)
    assert all(reply.is_complete and b"event: snapshot" in reply.body for reply in replies)
    assert sum(name.startswith("streams") for name in started) == 1


def test_streams__that_wake_together_let_other_work_between(app: Flask) -> None:
    async def order() -> list[str]:
        gateway, done = Gateway(app, 1), list[str]()

        async def stream() -> None:
            await gateway._next_wake()
            done.append("stream")

        streams = [asyncio.ensure_future(stream()) for _ in range(3 * AT_ONCE)]
        await asyncio.sleep(0)
        gateway.wake_streams()
        await asyncio.sleep(0)  # here the loop begins to wake them
        asyncio.get_running_loop().call_soon(done.append, "request")
        await asyncio.gather(*streams)
        gateway.close()
        return done

    found = asyncio.run(order())
    assert found.count("stream") == 3 * AT_ONCE
    assert found.index("request") <= AT_ONCE


def test_streams__news_while_they_wake_reach_every_one(app: Flask) -> None:
    async def wakes() -> list[int]:
        gateway, counts = Gateway(app, 1), [0] * (2 * AT_ONCE)

        async def stream(number: int) -> None:
            for _ in range(2):
                await gateway._next_wake()
                counts[number] += 1

        streams = [asyncio.ensure_future(stream(number)) for number in range(len(counts))]
        await asyncio.sleep(0)
        gateway.wake_streams()
        await asyncio.sleep(0)
        gateway.wake_streams()
        await asyncio.wait_for(asyncio.gather(*streams), 5)
        gateway.close()
        return counts

    assert asyncio.run(wakes()) == [2] * (2 * AT_ONCE)


def test_streams__too_many_are_a_429_and_a_place_is_free_again_after_the_end(app: Flask) -> None:
    found: Services = app.extensions[EXTENSION]
    object.__setattr__(found, "streams", StreamPlaces(3))
    for _ in range(2):
        replies = call(app, *[("GET", "/api/v1/events?count=2", b"")] * 5)
        assert sorted(reply.status for reply in replies) == [200, 200, 200, 429, 429]
    refused = next(reply for reply in replies if reply.status == 429)
    assert (refused.code, refused.headers["retry-after"]) == ("too-many-streams", "5")
    assert b"most_streams" in refused.body


def test_streams__clients_without_a_token_have_places_of_their_own() -> None:
    places = StreamPlaces(8)
    leave = places.take(False)
    with pytest.raises(Exception, match="without a token"):
        places.take(False)
    places.take(True)
    leave()
    places.take(False)


@pytest.mark.parametrize(
    ("method", "path", "channel", "kind"),
    [
        ("POST", "/api/v1/flows", Channel(is_unix=True), AGENTS),
        ("POST", "/api/v1/agents/h1", Channel(is_agents=True, certificate=b"x"), AGENTS),
        ("GET", "/api/v1/network", Channel(is_agents=True), AGENTS),
        ("POST", "/api/v1/agents/s/captures/0", Channel(), LOCAL_AGENTS),
        ("POST", "/api/v1/flows", Channel(), LOCAL_AGENTS),
        ("GET", "/api/v1/health", Channel(), HEALTH),
        ("GET", "/api/v1/events", Channel(), STREAMS),
        ("GET", "/api/v1/flows", Channel(), READS),
        ("PUT", "/api/v1/policy", Channel(), CHANGES),
    ],
)
def test_kind_of__each_kind_has_threads_of_its_own(
    method: str, path: str, channel: Channel, kind: str
) -> None:
    assert kind_of(method, path, channel) == kind


def test_most_body_bytes__flows_and_captures_are_longer_than_others() -> None:
    capture = most_body_bytes("/api/v1/agents/rack1/captures/0123456789abcdef")
    assert capture == MAX_RESULT_BYTES > most_body_bytes("/api/v1/agents/rack1") == MAX_BODY_BYTES
    assert most_body_bytes("/api/v1/flows") == MAX_FLOWS_BODY_BYTES
    assert most_body_bytes("/api/v1/agents/rack1/captures/x/more") == MAX_BODY_BYTES
