# SPDX-License-Identifier: Apache-2.0
"""The application as the server's front calls it (ASGI): views have threads, bodies and streams do not.

A view runs only when its whole request is there, so a slow client holds no thread. Each kind of request has threads of
its own. So no flood of one kind delays another.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from io import BytesIO
from typing import Any, TypeAlias

from flask import Flask

from policy.captures import MAX_RESULT_BYTES
from webui.bodies import MAX_BODY_BYTES, MAX_FLOWS_BODY_BYTES
from webui.channel import CHANNEL, Channel
from webui.errors import BUSY, RETRY_AFTER_S
from webui.event_stream import STREAM, EventStream
from webui.pools import STREAM_PATH, Busy, Pools
from webui.services import EXTENSION

log = logging.getLogger(__name__)

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

FLOWS_PATH = "/api/v1/flows"
_CAPTURE = re.compile(r"/api/v1/agents/[^/]+/captures/[^/]+")
BODY_S = 10.0
"""Time for a body, and one second more for each BODY_RATE_BYTES that have come."""
BODY_RATE_BYTES = 100_000
DISCARDED_BYTES = 32_000_000
"""How much of an oversized body to discard. A client that can send its body to the end reads the 413."""
HELD_BYTES = 64_000_000
"""The most bytes of bodies that wait in memory, for callers that are trusted and for others."""
ANSWER_S = 30.0
"""Time for a client to take its answer."""
AT_ONCE = 8
"""How many streams send their frames before the loop looks for other work."""
FRAME_S = 10.0
"""Time for a client to take a frame of its event stream. A slower one is cut off, and connects again."""


class Refused(Exception):
    """A request that no view gets to see."""

    def __init__(self, status: int, code: str, problem: str) -> None:
        super().__init__(problem)
        self.status, self.code, self.problem = status, code, problem


def most_body_bytes(path: str) -> int:
    """Return the length of the longest body that a view reads."""
    if path == FLOWS_PATH:
        return MAX_FLOWS_BODY_BYTES
    return MAX_RESULT_BYTES if _CAPTURE.fullmatch(path) else MAX_BODY_BYTES


class Gateway:
    """An ASGI application around the WSGI application."""

    def __init__(self, app: Flask, threads: int) -> None:
        self._app = app
        self._pools = Pools(threads)
        self._held = {True: 0, False: 0}
        self._waiting: list[asyncio.Future[None]] = []
        self._has_news = False
        self._waking: asyncio.Task[None] | None = None
        app.extensions[EXTENSION].live.call_at_ticks(self._tell)
        self._loop = asyncio.get_event_loop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        channel: Channel = scope["extensions"][CHANNEL]
        try:
            _check_framing(scope)
            self._check_streams(scope)
            body = await self._body(scope, receive, channel.is_trusted)
            if body is not None:
                await self._answer(scope, channel, body, send)
        except Refused as refused:
            await _refuse(send, refused)

    def _check_streams(self, scope: Scope) -> None:
        """Refuse a stream without a token at once if there is no place. It costs no thread."""
        if scope["path"] != STREAM_PATH or any(name == b"authorization" for name, _ in scope["headers"]):
            return
        if problem := self._app.extensions[EXTENSION].streams.problem(has_token=False):
            raise Refused(429, "too-many-streams", problem)

    def wake_streams(self) -> None:
        """Let every stream send what is new, or see that the process stops. Runs in the loop's thread."""
        self._has_news = True
        if self._waking is None or self._waking.done():
            self._waking = self._loop.create_task(self._wake_in_turn())

    async def _wake_in_turn(self) -> None:
        """Wake a few streams at a time. So a request that arrives meanwhile waits for a few frames, not for all."""
        while self._has_news:
            self._has_news = False
            waiting, self._waiting = self._waiting, []
            for number, stream in enumerate(waiting):
                if not stream.done():
                    stream.set_result(None)
                if number % AT_ONCE == AT_ONCE - 1:
                    await asyncio.sleep(0)

    @property
    def is_busy(self) -> bool:
        """Whether a view runs or waits for its thread."""
        return self._pools.is_busy

    def close(self) -> None:
        """Begin no further view."""
        self._pools.close()

    def _tell(self) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self.wake_streams)

    async def _body(self, scope: Scope, receive: Receive, is_trusted: bool) -> bytes | None:
        """Return the whole body; None if the client has gone. Raises Refused: too long, too slow, too many."""
        limit = most_body_bytes(scope["path"])
        body = bytearray()
        held = 0
        try:
            async for piece in _pieces(receive, limit):
                if held + len(piece) <= limit:
                    body += piece
                    held += len(piece)
                    self._held[is_trusted] += len(piece)
                if self._held[is_trusted] > HELD_BYTES:
                    raise Refused(
                        503, "busy", "too many bodies arrive at the same time; try again in a moment"
                    )
            return bytes(body)
        except ConnectionError:
            return None
        finally:
            self._held[is_trusted] -= held

    async def _answer(self, scope: Scope, channel: Channel, body: bytes, send: Send) -> None:
        environ = environ_of(scope, channel, body)
        try:
            status, headers, result = await self._pools.run(
                environ, channel, lambda: _run(self._app, environ), lambda: _close_stream(environ)
            )
        except Busy as busy:
            raise Refused(503, "busy", str(busy)) from None
        stream: EventStream | None = environ.get(STREAM)
        try:
            await send({"type": "http.response.start", "status": status, "headers": headers})
            if stream is not None and scope["method"] != "HEAD":
                await self._send_stream(stream, send)
            else:
                async with asyncio.timeout(ANSWER_S):
                    await send({"type": "http.response.body", "body": result})
        except TimeoutError:
            return  # it returns amid an answer, so the front closes the connection
        finally:
            _close_stream(environ)

    async def _send_stream(self, stream: EventStream, send: Send) -> None:
        frames = stream.greeting
        while True:
            if frames:
                async with asyncio.timeout(FRAME_S):
                    await send({"type": "http.response.body", "body": frames, "more_body": True})
            if stream.is_over:
                break
            frames = stream.fresh()
            if not frames:
                await self._next_wake()
                frames = stream.fresh()
        await send({"type": "http.response.body", "body": b""})

    async def _next_wake(self) -> None:
        waits = self._loop.create_future()
        self._waiting.append(waits)
        await waits


def _check_framing(scope: Scope) -> None:
    """Refuse a body that is compressed on the way, and one that would be discarded anyway. Raises Refused."""
    for name, value in scope["headers"]:
        if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
            raise Refused(
                501, "transfer-coding", "send the body without a transfer coding other than chunked"
            )
        if name == b"content-length" and int(value) > DISCARDED_BYTES:
            raise Refused(413, "too-large", f"the body is larger than {DISCARDED_BYTES} bytes")


async def _pieces(receive: Receive, limit: int) -> Any:
    """Yield the pieces of the body. Raises Refused, and ConnectionError if the client has gone."""
    loop = asyncio.get_running_loop()
    began, size, more = loop.time(), 0, True
    while more:
        left = began + BODY_S + size / BODY_RATE_BYTES - loop.time()
        try:
            async with asyncio.timeout(max(0.001, left)):
                message = await receive()
        except TimeoutError:
            raise Refused(
                408, "too-slow", f"the body did not arrive: {size} bytes in {loop.time() - began:.0f} s"
            ) from None
        if message["type"] == "http.disconnect":
            raise ConnectionError
        size += len(message["body"])
        more = message["more_body"]
        if size > DISCARDED_BYTES:
            break
        yield message["body"]
    if size > limit:
        raise Refused(413, "too-large", f"the body is larger than {limit} bytes, which this endpoint allows")


def _run(app: Flask, environ: dict[str, Any]) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Return status, headers and body of the view's answer; no body if it is a stream."""
    head: list[Any] = []

    def start_response(
        status: str, headers: list[tuple[str, str]], _error: object = None
    ) -> Callable[[bytes], object]:
        head[:] = [status, headers]
        return lambda _data: None

    result: Iterable[bytes] = app(environ, start_response)
    body = b""
    if STREAM not in environ:
        try:
            body = b"".join(result)
        finally:
            getattr(result, "close", lambda: None)()
    status, headers = head
    lines = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    return int(status.split()[0]), lines, body


def _close_stream(environ: dict[str, Any]) -> None:
    if STREAM in environ:
        environ[STREAM].close()


def environ_of(scope: Scope, channel: Channel, body: bytes) -> dict[str, Any]:
    """Return the WSGI environment (PEP 3333) of a request whose body is complete."""
    server, client = scope["server"] or ("localhost", None), scope["client"] or ("", "")
    environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": scope["path"].encode("utf-8", "surrogateescape").decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": str(server[0]),
        "SERVER_PORT": str(server[1] or 80),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": str(client[0]),
        "REMOTE_PORT": str(client[1]),
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "https" if channel.is_agents else "http",
        "wsgi.input": BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        CHANNEL: channel,
    }
    for name, value in scope["headers"]:
        _add_header(environ, name.decode("latin-1"), value.decode("latin-1"))
    return environ


def _add_header(environ: dict[str, Any], name: str, value: str) -> None:
    key = name.upper().replace("-", "_")
    if key in ("CONTENT_LENGTH", "TRANSFER_ENCODING") or "_" in name:
        return  # the body is complete; a name with _ would pass for one with -
    key = key if key == "CONTENT_TYPE" else f"HTTP_{key}"
    environ[key] = f"{environ[key]},{value}" if key in environ else value


async def _refuse(send: Send, refused: Refused) -> None:
    """Send the API's error document, as webui.errors does for errors of views."""
    error = {"code": refused.code, "problem": refused.problem, "field": None, "index": None}
    body = json.dumps({"error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refused.status in BUSY:
        headers.append((b"retry-after", str(RETRY_AFTER_S).encode()))
    if refused.status == 408:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
