# SPDX-License-Identifier: Apache-2.0
"""The HTTP server in front of the views, in this process and on a port of its own."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
from flask import Flask

from sluice.webui import bridge as bridge_module
from sluice.webui.access import Channel
from sluice.webui.api import MAX_BODY_BYTES
from sluice.webui.bridge import (
    BURST,
    MOST_HEADER_BYTES,
    PLAIN,
    TURNS_PER_S,
    Bridge,
    Pace,
    begins_long_header,
    kind_of,
)
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
        async with serving(app) as port:
            return list(await asyncio.gather(*(one(port, request) for request in requests)))

    return asyncio.run(everything())


@asynccontextmanager
async def serving(app: Flask) -> AsyncIterator[int]:
    """A server in this thread, and its port."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        listener.setblocking(False)
        bridge = Bridge(app, 2, 1000)
        bridge.listen(PLAIN, listener)
        try:
            yield listener.getsockname()[1]
        finally:
            await bridge.end(0.0)


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


class FakeLoop:
    """A loop whose clock the test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.later: list[Callable[[], None]] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, _delay_s: float, then: Callable[[], None]) -> None:
        self.later.append(then)


def test_pace__after_a_burst_the_newest_go_first_at_the_rate() -> None:
    loop, begun = FakeLoop(), list[int]()
    pace = Pace(loop)  # type: ignore[arg-type]

    def request(number: int) -> bool:
        begun.append(number)
        return number % 2 == 0  # the clients of odd numbers have gone, and take no turn

    for number in range(4 * BURST):
        pace.admit(number, partial(request, number), is_health=False)
    at_once = 2 * BURST - 1
    assert begun == list(range(at_once))
    for _ in range(100):
        loop.now_s += 1.0 / TURNS_PER_S
        [resume] = loop.later
        loop.later.clear()
        resume()
    newest = list(reversed(range(at_once, 4 * BURST)))
    assert begun[at_once:] == newest[:200]
    pace.forget(at_once)
    pace.forget(at_once)
    assert begun[-1] == at_once
    assert begun.count(at_once) == 1
    pace.admit(-2, partial(request, -2), is_health=False, is_first=False)
    for number in (-4, -6):
        pace.admit(number, partial(request, number), is_health=True)
    at_once = len(begun)
    loop.now_s += 100 * BURST / TURNS_PER_S
    while loop.later:
        loop.later.pop()()
        loop.now_s += 1.0
    took_turns = [number for number in begun[at_once:] if number % 2 == 0]
    assert took_turns[:4:2] == [-6, -4], "every other turn is the health's"
    assert begun[-1] == -2


def test_pace__each_request_waits_for_its_turn_but_no_agents_document_and_no_long_header(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[bool] = []
    admit = Pace.admit

    def noted(
        pace: Pace, client: object, begin: Callable[[], bool], *, is_health: bool, is_first: bool = True
    ) -> None:
        turns.append(is_health)
        admit(pace, client, begin, is_health=is_health, is_first=is_first)

    monkeypatch.setattr(Pace, "admit", noted)
    last = request("GET", "/health")
    kept = last.replace(b"Connection: close\r\n", b"")
    flows = request("POST", "/api/v1/flows", json.dumps([record("f")]).encode())

    async def three_at_once() -> bytes:
        async with serving(app) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(kept + kept + last)
            answers = await reader.read()
            writer.close()
            return answers

    assert asyncio.run(three_at_once()).count(b"HTTP/1.1 200 ") == 3
    assert turns == [True] * 3
    assert [reply.status for reply in call(app, flows)] == [200]
    [refused] = call(app, request("GET", "/" + "a" * MOST_HEADER_BYTES))
    assert (refused.status, refused.code) == (431, "long-header")
    assert len(turns) == 3


@pytest.mark.parametrize("end", [b"\r\n\r\n", b"\n\n", b"\r\n\n", b"\n\r\n"])
def test_begins_long_header__not_if_its_end_is_there(end: bytes) -> None:
    body = b"a" * MOST_HEADER_BYTES
    assert not begins_long_header(b"GET / HTTP/1.1" + end + body)
    assert begins_long_header(b"GET /" + body)
    assert not begins_long_header(body)


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
