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
from webui.services import EXTENSION

HEADER_S = 10.0
"""Time for the header of a request, from its first byte; of a connection's first request, from its beginning."""
LINGER_S = 5.0
"""Time in which a client must take the rest of its answer from a connection that ends."""
_PLAIN, _UNIX, _AGENTS = "plain", "unix", "agents"


class Protocol(ASGIProtocol):  # type: ignore[misc]
    """One connection: HTTP as gunicorn reads it, with a deadline for each header."""

    def __init__(self, worker: FrontWorker, door: Door, address: str, kind: str) -> None:
        super().__init__(worker)
        self._door, self._kind = door, kind
        self.visit = Visit(address, self._make_room)
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect_header()

    def data_received(self, data: bytes) -> None:
        if self._awaiting_request and self._header_timer is None:
            self._expect_header()
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._door.leave(self.visit)
        super().connection_lost(exc)

    def _expect_header(self) -> None:
        self._header_timer = self.worker.loop.call_later(
            HEADER_S, self._end, 408, "too-slow", f"no complete header within {HEADER_S:.0f} s"
        )

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _on_headers_complete(self) -> Any:
        self._stop_timer()
        self._door.serve(self.visit)
        return super()._on_headers_complete()

    def _arm_keepalive_timer(self) -> None:
        self._door.wait(self.visit)
        super()._arm_keepalive_timer()

    def _make_room(self) -> None:
        self._end(408, "made-room", "the server has too many connections, and this one has waited longest")

    def _end(self, status: int, code: str, problem: str) -> None:
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
        channel = Channel(self._kind == _AGENTS, self._kind == _UNIX, certificate)
        return {**scope, "extensions": {CHANNEL: channel}}


class FrontWorker(ASGIWorker):  # type: ignore[misc]
    """Serves the WSGI application of this process through a Gateway."""

    def load_wsgi(self) -> None:
        self.wsgi = self.app.wsgi()
        self.asgi = Gateway(self.wsgi, self.app.threads)

    def init_signals(self) -> None:
        super().init_signals()
        self._ending = asyncio.Event()

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
            protocol = Protocol(self, doors[kind], "" if kind == _UNIX else str(address[0]), kind)
            self.loop.create_task(self._begin(connection, protocol, agents if kind == _AGENTS else None))
            await asyncio.sleep(0)

    async def _begin(
        self, connection: socket.socket, protocol: Protocol, agents: AgentsAddress | None
    ) -> None:
        connection.setblocking(False)
        door, visit = protocol._door, protocol.visit
        if not door.enter(visit):
            with connection, suppress(OSError):
                connection.send(b"" if agents else answer(429, "too-many-connections", _TOO_MANY))
            return
        if agents is None:
            await self.loop.connect_accepted_socket(lambda: protocol, connection)
            return
        visit.turn_away = connection.close
        try:
            await self._shake_hands(connection, protocol, agents)
        finally:
            if protocol.transport is None:
                door.leave(visit)

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
                await asyncio.to_thread(agents.refused, protocol.visit.address, reason(error))
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
