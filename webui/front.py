# SPDX-License-Identifier: Apache-2.0
"""The server's front: gunicorn's asyncio worker, with deadlines for headers and limits on connections.

It accepts connections itself, because each address has rules of its own: the agents' address begins with a TLS
handshake, and each kind of listener has its own places. No connection holds a thread before its request is complete.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import time
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from gunicorn.asgi.protocol import ASGIProtocol
from gunicorn.workers.gasgi import ASGIWorker

from webui.agent_tls import AGENTS, HANDSHAKE_S, AgentsAddress, reason
from webui.channel import CHANNEL, Channel
from webui.door import Door, Visit
from webui.errors import RETRY_AFTER_S
from webui.gateway import Gateway
from webui.peers import uid_at_loopback, uid_at_unix_socket
from webui.services import EXTENSION

HEADER_S = 10.0
"""Time for the header of a request, from its first byte; of a connection's first request, from its beginning."""
MOST_HEADER_BYTES = 65_536
"""The most bytes of a header that wait for its end. A browser with many cookies needs some thousand."""
SMALL_CHUNKS = 500
CHUNK_BYTES = 64
"""A body may come in SMALL_CHUNKS chunks of any size, and in one more for each CHUNK_BYTES. Each costs time."""
LINGER_S = 5.0
"""Time in which a client must take the rest of its answer from a connection that ends."""
_PLAIN, _UNIX, _AGENTS = "plain", "unix", "agents"


class _SmallChunks(Exception):
    """A body comes in too many chunks."""


class Protocol(ASGIProtocol):  # type: ignore[misc]
    """One connection: HTTP as gunicorn reads it, with a deadline for each header."""

    def __init__(self, worker: FrontWorker, door: Door, visit: Visit, kind: str) -> None:
        super().__init__(worker)
        self._door, self._kind, self._visit = door, kind, visit
        visit.turn_away = self._make_room
        self._header_timer: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._chunks, self._body_bytes = 0, 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect_header()

    def data_received(self, data: bytes) -> None:
        if self._awaiting_request and self._header_timer is None:
            self._expect_header()
        self._header_bytes += len(data)
        super().data_received(data)
        if self._header_timer is not None and self._header_bytes > MOST_HEADER_BYTES and not self._closed:
            self._end(431, "long-header", _LONG_HEADER)

    def _feed_callback_parser(self, data: bytes) -> bool:
        """Read bytes of a request. Returns False if the connection ends."""
        try:
            return bool(super()._feed_callback_parser(data))
        except ValueError:  # Python makes no number of so many digits
            self._end(400, "malformed-header", "the header has a number of too many digits")
        except _SmallChunks:
            self._end(400, "small-chunks", f"most chunks of the body have less than {CHUNK_BYTES} bytes")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self.leave()
        super().connection_lost(exc)

    @property
    def address(self) -> str:
        return self._visit.address

    def leave(self) -> None:
        """Give the place back."""
        self._door.leave(self._visit)

    def _expect_header(self) -> None:
        self._header_bytes = 0
        self._header_timer = self.worker.loop.call_later(HEADER_S, self._end, 408, "too-slow", _NO_HEADER)

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _on_headers_complete(self) -> Any:
        self._stop_timer()
        self._door.serve(self._visit)
        self._chunks, self._body_bytes = 0, 0
        return super()._on_headers_complete()

    def _on_body(self, chunk: bytes) -> None:
        self._chunks, self._body_bytes = self._chunks + 1, self._body_bytes + len(chunk)
        if self._chunks > SMALL_CHUNKS + self._body_bytes / CHUNK_BYTES:
            raise _SmallChunks
        super()._on_body(chunk)

    def _arm_keepalive_timer(self) -> None:
        self._door.wait(self._visit)
        super()._arm_keepalive_timer()

    def _make_room(self) -> None:
        self._end(408, "made-room", _LONGEST)

    def _end(self, status: int, code: str, problem: str) -> None:
        self._stop_timer()
        self._safe_write(answer(status, code, problem))
        self._close_transport()
        self._request_ready.set()

    def _close_transport(self) -> None:
        if self.transport and not self._closed:
            self.worker.loop.call_later(LINGER_S, self.transport.abort)
        super()._close_transport()

    def _is_websocket_upgrade(self, request: Any) -> bool:
        return False

    def _build_http_scope(self, request: Any, sockname: Any, peername: Any) -> dict[str, Any]:
        scope: dict[str, Any] = super()._build_http_scope(request, sockname, peername)
        tls = self.transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls else None
        channel = Channel(self._kind == _AGENTS, self._kind == _UNIX, self._uid, certificate)
        return {**scope, "extensions": {CHANNEL: channel}}

    def _uid(self) -> int | None:
        """Return the caller's user id. Asked only for agents' documents at addresses without TLS."""
        if self._kind == _UNIX:
            return uid_at_unix_socket(self.transport.get_extra_info("socket"))
        client, server = (self.transport.get_extra_info(end) for end in ("peername", "sockname"))
        return uid_at_loopback(client[:2], server[:2])


class FrontWorker(ASGIWorker):  # type: ignore[misc]
    """Serves the WSGI application of this process through a Gateway."""

    def load_wsgi(self) -> None:
        self.wsgi = self.app.wsgi()
        self.asgi = Gateway(self.wsgi, self.app.threads)

    def init_signals(self) -> None:
        super().init_signals()
        self._ending = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def handle_exit_signal(self) -> None:
        super().handle_exit_signal()
        self._end_answers()

    def handle_quit_signal(self) -> None:
        super().handle_quit_signal()
        self._end_answers()

    def _end_answers(self) -> None:
        """End the long-lived answers: event streams, and a PUT that waits for the controller."""
        self._ending.set()
        self.wsgi.extensions[EXTENSION].stopping.set()
        self.asgi.wake_streams()

    async def _serve(self) -> None:
        agents: AgentsAddress | None = self.wsgi.extensions[AGENTS]
        if agents and not any(listener.cfg_addr == agents.address for listener in self.sockets):
            raise RuntimeError(f"no listener at the agents' address {agents.address}")
        doors = {kind: Door(self.app.most_connections) for kind in (_PLAIN, _UNIX, _AGENTS)}
        tasks = [self.loop.create_task(self._accept(listener, agents, doors)) for listener in self.sockets]
        while self.alive and self.ppid == os.getppid():
            self.notify()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), 1.0)
        for task in tasks:
            task.cancel()
        await self._finish()

    async def _finish(self) -> None:
        """Give running requests a moment."""
        deadline = time.monotonic() + self.cfg.graceful_timeout / 2
        while self.nr_conns and time.monotonic() < deadline and self.asgi.is_busy:
            await asyncio.sleep(0.02)
        self.asgi.close()

    async def _accept(self, listener: Any, agents: AgentsAddress | None, doors: dict[str, Door]) -> None:
        kind = _kind_of(listener, agents)
        while True:
            try:
                connection, address = await self.loop.sock_accept(listener.sock)
            except OSError as error:  # no descriptors: those that wait will time out
                self.log.warning("cannot accept a connection: %s", error)
                await asyncio.sleep(0.1)
                continue
            self._begin(connection, doors[kind], kind, "" if kind == _UNIX else str(address[0]), agents)
            await asyncio.sleep(0)

    def _begin(
        self, connection: socket.socket, door: Door, kind: str, address: str, agents: AgentsAddress | None
    ) -> None:
        """Let a connection wait for its first byte, which costs little, so that many silent ones cost little, too."""
        connection.setblocking(False)
        visit = Visit(address, lambda: end(408, "made-room", _LONGEST))

        def stop_waiting() -> None:
            self.loop.remove_reader(connection)
            timer.cancel()

        def end(status: int, code: str, problem: str) -> None:
            stop_waiting()
            door.leave(visit)
            with connection, suppress(OSError):
                connection.send(b"" if kind == _AGENTS else answer(status, code, problem))

        def start() -> None:
            stop_waiting()
            protocol = Protocol(self, door, visit, kind)
            visit.turn_away = connection.close
            self._tasks.add(
                task := self.loop.create_task(self._serve_one(connection, protocol, kind, agents))
            )
            task.add_done_callback(self._tasks.discard)

        timer = self.loop.call_later(HEADER_S, end, 408, "too-slow", _NO_HEADER)
        if door.enter(visit):
            self.loop.add_reader(connection, start)
        else:
            end(429, "too-many-connections", _TOO_MANY)

    async def _serve_one(
        self, connection: socket.socket, protocol: Protocol, kind: str, agents: AgentsAddress | None
    ) -> None:
        try:
            if agents is not None and kind == _AGENTS:
                await self._shake_hands(connection, protocol, agents)
            else:
                await self.loop.connect_accepted_socket(lambda: protocol, connection)
        finally:
            if protocol.transport is None:
                protocol.leave()

    async def _shake_hands(
        self, connection: socket.socket, protocol: Protocol, agents: AgentsAddress
    ) -> None:
        plain, handshake = connection.dup(), agents.handshake()
        with plain:
            try:
                await self.loop.connect_accepted_socket(
                    lambda: protocol,
                    connection,
                    ssl=handshake,  # asyncio calls wrap_bio and nothing else
                    ssl_handshake_timeout=HANDSHAKE_S,
                )
            except ssl.SSLError as error:
                await self._send_alert(plain, handshake.alert)
                await asyncio.to_thread(agents.refused, protocol.address, reason(error))
            except OSError:
                return  # the caller has gone, or was too slow

    async def _send_alert(self, plain: socket.socket, alert: bytes) -> None:
        """Send the reason, and read what the caller still sends. Closed with unread data, a socket discards it."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self.loop.sock_sendall(plain, alert)
                plain.shutdown(socket.SHUT_WR)
                while await self.loop.sock_recv(plain, 4096):
                    pass


_NO_HEADER = f"no complete header within {HEADER_S:.0f} s"
_LONG_HEADER = f"the header has more than {MOST_HEADER_BYTES} bytes"
_LONGEST = "the server has too many connections, and this one has waited longest"
_TOO_MANY = "the server has too many connections; try again later"


def _kind_of(listener: Any, agents: AgentsAddress | None) -> str:
    if listener.sock.family == socket.AF_UNIX:
        return _UNIX
    return _AGENTS if agents and listener.cfg_addr == agents.address else _PLAIN


def answer(status: int, code: str, problem: str) -> bytes:
    """Return a whole answer with the API's error document, after which the connection closes."""
    body = json.dumps({"error": {"code": code, "problem": problem, "field": None, "index": None}})
    retry = f"Retry-After: {RETRY_AFTER_S}\r\n" if status == 429 else ""
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n{retry}"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
