# SPDX-License-Identifier: Apache-2.0
"""The HTTP server: Tornado reads and writes HTTP/1.1, the Flask application answers.

    accept → a place → the first bytes → its turn (TLS: a handshake) → the header → the whole body → a thread of its
    kind → answer or stream

Each step has a deadline or a limit. A view runs only when its whole request is there, and each kind of request has
threads of its own. So no slow client, and no flood of one kind, delays another.
"""

import asyncio
import json
import logging
import socket
import ssl
import sys
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from io import BytesIO
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

from flask import Flask
from tornado import httputil
from tornado.http1connection import HTTP1ConnectionParameters, HTTP1ServerConnection
from tornado.iostream import IOStream, SSLIOStream, UnsatisfiableReadError

from sluice.webui.access import CHANNEL, PLACE, STREAM, Channel, ConnectionPlaces, uid_of
from sluice.webui.api import BUSY, MAX_BODY_BYTES, MAX_FLOWS_BODY_BYTES, RETRY_AFTER_S, ApiError
from sluice.webui.authority import HANDSHAKE_S, Authority, reason
from sluice.webui.services import EXTENSION, EventStream, Services

log = logging.getLogger(__name__)
logging.getLogger("tornado.general").setLevel(logging.CRITICAL)  # it has a line for each malformed request

Environ: TypeAlias = dict[str, Any]
Answer: TypeAlias = tuple[int, list[tuple[str, str]], bytes]

HEADER_S = 10.0
"""Time from the beginning of a connection to the end of its first header."""
KEEPALIVE_S = 75.0
"""Time from an answer to the end of the next header. It is longer than the pause between two heartbeats. Otherwise the
server would close the connection under the next one."""
MOST_HEADER_BYTES = 16_000
"""A browser with many cookies needs some thousand."""
LONG_HEADER = 431, "long-header", f"the header has more than {MOST_HEADER_BYTES} bytes"
READ_BYTES = 16_384
"""Read at a time. It is more than a header may have, because Tornado looks for the end before the length."""
BODY_S = 10.0
"""Time for a body, and one second more for each BODY_RATE_BYTES that have come."""
BODY_RATE_BYTES = 100_000
DISCARDED_BYTES = 32_000_000
"""How much of an oversized body to discard. A client that can send its body to the end reads the 413."""
HELD_BYTES = 64_000_000
"""The most bytes of bodies in memory, for callers that are trusted and for others."""
ANSWER_S = 30.0
"""Time for a client to take its answer."""
FRAME_S = 10.0
"""Time for a client to take a frame of its event stream. A slower one is cut off, and connects again."""
UNSENT_BYTES = 131_072
"""What the kernel holds of an answer. Otherwise a client that reads nothing costs megabytes before FRAME_S begins."""
LINGER_S, MOST_LINGERING = 1.0, 10
"""Time to discard what a refused client still sends, and for how many. Closed with unread data, a socket takes its
answer back."""
PARKED_S, MOST_PARKED = 10.0, 5000
"""While more clients are refused, the time after which their connections end, and for how many. Many a client tries
again once its connection has ended, and each attempt costs a millisecond."""
AT_ONCE = 8
"""How many streams send their frames, and how many connections are accepted, before the loop looks for other work."""
PAUSE_S, AFTER_PAUSE = 0.02, 400
"""If more connections come in this time than are accepted at once: a pause, and how many come after it. By then,
clients that only connect have gone, and cost a tenth of a request."""
TURNS_PER_S, BURST = 50, 150
"""Turns that begin in a second, and at once after a pause. A turn costs about a millisecond of CPU time. Most requests
take one, and a page of the dashboard is about a hundred requests."""
PLAIN, UNIX, AGENTS = "plain", "unix", "agents"
"""Kinds of listeners. Each has places of its own."""

FLOWS_PATH, AGENTS_PATH = "/api/v1/flows", "/api/v1/agents/"
STREAM_PATH = "/api/v1/events"
HEALTH_PATHS = ("/api/v1/health", "/health")
HEALTH_FIRST_BYTES = tuple(f"GET {path}".encode() for path in HEALTH_PATHS)
AGENTS_FIRST_BYTES = tuple(f"POST {path}".encode() for path in (FLOWS_PATH, AGENTS_PATH))
"""How a first request begins that waits for no turn: agents' documents have threads of their own."""
_THREADS = {"agents": 8, "local-agents": 8, "health": 2, "streams": 1, "changes": 16}
"""One thread opens the streams: when all dashboards come back at once, the other requests get their turn."""
MOST_WAITING = 500
"""Requests of a kind that wait for a thread. A further one is told to come back."""
_CLOSE_WAIT = 8
"""State of a TCP connection whose other end sends nothing more (Linux, TCP_INFO)."""
_HTTP = HTTP1ConnectionParameters(max_header_size=MOST_HEADER_BYTES, max_body_size=2 * DISCARDED_BYTES)


def kind_of(method: str, path: str, channel: Channel) -> str:
    """Return the kind of a request, which has threads of its own."""
    if channel.is_agents:
        return "agents"
    if method == "POST" and (path.startswith(AGENTS_PATH) or path == FLOWS_PATH):
        return "agents" if channel.is_trusted else "local-agents"
    if path in HEALTH_PATHS:
        return "health"
    if path == STREAM_PATH:
        return "streams"
    return "reads" if method in ("GET", "HEAD", "OPTIONS") else "changes"


def most_body_bytes(path: str) -> int:
    """Return the length of the longest body that a view reads."""
    return MAX_FLOWS_BODY_BYTES if path == FLOWS_PATH else MAX_BODY_BYTES


class Allowance:
    """How much may begin now, of what may begin at a limited rate."""

    def __init__(self, per_s: float, burst: float, now_s: float) -> None:
        """`burst`: how much may begin at once after a pause, and the largest debt after more than was allowed."""
        self._per_s, self._burst = per_s, burst
        self._left, self._counted_s = burst, now_s

    def has_one(self, now_s: float) -> bool:
        self._left = min(self._burst, self._left + self._per_s * (now_s - self._counted_s))
        self._counted_s = now_s
        return self._left >= 1

    def take_one(self) -> None:
        self._left = max(-self._burst, self._left - 1)


class Pace:
    """Lets requests at an address without TLS begin at a limited rate. The thread of the event loop uses it.

    The newest connection goes first, so a client that comes during a flood does not wait for all of it. Further
    requests of a connection come after the first ones of all others. Requests for the health have a line of their own,
    and the two lines take turns.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._allowance = Allowance(TURNS_PER_S, BURST, loop.time())
        self._lines: dict[bool, OrderedDict[object, Callable[[], bool]]] = {
            is_health: OrderedDict() for is_health in (True, False)
        }
        self._is_health_next = True
        self._is_pausing = False

    def admit(
        self, client: object, begin: Callable[[], bool], *, is_health: bool, is_first: bool = True
    ) -> None:
        """Call `begin` at the client's turn. It returns False if the client has gone, and then takes no turn."""
        line = self._lines[is_health]
        line[client] = begin
        line.move_to_end(client, last=is_first)
        if not self._is_pausing:
            self._continue()

    def forget(self, client: object) -> None:
        """Call `begin` of a client that has gone, so that its request ends. Without one, nothing happens."""
        for line in self._lines.values():
            if begin := line.pop(client, None):
                begin()

    def _continue(self) -> None:
        while any(self._lines.values()) and self._allowance.has_one(self._loop.time()):
            is_health = self._is_health_next == bool(self._lines[self._is_health_next])
            _, begin = self._lines[is_health].popitem()
            if begin():
                self._allowance.take_one()
                self._is_health_next = not is_health
        self._is_pausing = any(self._lines.values())
        if self._is_pausing:
            self._loop.call_later(AT_ONCE / TURNS_PER_S, self._continue)


class Bridge:
    """The server of one worker process. The thread of the event loop uses it."""

    def __init__(self, app: Flask, reads: int, most_connections: int) -> None:
        """`reads`: threads for requests that change nothing."""
        self.app = app
        self.services: Services = app.extensions[EXTENSION]
        self.loop = asyncio.get_running_loop()
        self.places = {kind: ConnectionPlaces(most_connections) for kind in (PLAIN, UNIX, AGENTS)}
        self.pace = Pace(self.loop)
        self.held = {True: 0, False: 0}
        """Bytes of bodies in memory, of callers that are trusted and of others."""
        self._threads = {
            kind: ThreadPoolExecutor(number, thread_name_prefix=kind)
            for kind, number in {**_THREADS, "reads": reads}.items()
        }
        self._in_work = dict.fromkeys(self._threads, 0)
        self._streams: list[asyncio.Future[None]] = []
        """Streams that wait for news."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._lingering = 0
        self.parked = 0
        """Connections of refused clients that end later."""
        self._listeners: list[socket.socket] = []
        self.services.live.call_at_ticks(self._tick)

    def listen(self, kind: str, listener: socket.socket) -> None:
        """Accept connections. A few at a time, so that several workers share them evenly."""
        if kind == PLAIN:  # its connections inherit the length of the buffer
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNSENT_BYTES)
        self._listeners.append(listener)
        self._accept(kind, listener, Allowance(AT_ONCE / PAUSE_S, AT_ONCE, self.loop.time()), AT_ONCE)

    def _accept(self, kind: str, listener: socket.socket, allowance: Allowance, most: int) -> None:
        self.loop.add_reader(listener.fileno(), self._accept, kind, listener, allowance, AT_ONCE)
        pause_s = PAUSE_S
        for _ in range(most):
            if most == AT_ONCE and not allowance.has_one(self.loop.time()):
                break
            try:
                accepted, address = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # no descriptors: the client waits
                log.warning("cannot accept a connection: %s", error)
                pause_s = 0.1
                break
            allowance.take_one()
            if kind != UNIX and has_gone(accepted):
                accepted.close()
            else:
                accepted.setblocking(False)
                Connection(self, kind, accepted, str(address[0]) if address else "").open()
        self.loop.remove_reader(listener.fileno())
        if not self.services.stopping.is_set():
            self.loop.call_later(pause_s, self._accept, kind, listener, allowance, AFTER_PAUSE)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine beside the others."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def run(self, kind: str, view: Callable[[], Answer]) -> Answer:
        """Run a view in a thread of its kind. Raises ApiError 503 if too many wait."""
        waiting = self._in_work[kind]
        if waiting >= MOST_WAITING:
            problem = f"{waiting} requests of this kind ({kind}) wait already; try again in a moment"
            raise ApiError(503, "busy", problem)
        self._in_work[kind] += 1
        try:
            return await self.loop.run_in_executor(self._threads[kind], view)
        finally:
            self._in_work[kind] -= 1

    def linger(self, connection: socket.socket) -> None:
        """Let a client read its last answer, though it still sends. The caller closes the connection at once."""
        if self._lingering < MOST_LINGERING:
            self.start(self._discard(connection.dup()))
        elif self.parked < MOST_PARKED:
            self.parked += 1
            self.loop.call_later(PARKED_S, self._let_go, connection.dup())

    def _let_go(self, connection: socket.socket) -> None:
        self.parked -= 1
        connection.close()

    async def _discard(self, connection: socket.socket) -> None:
        self._lingering += 1
        with connection, suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(LINGER_S):
                while await self.loop.sock_recv(connection, 65_536):
                    pass
        self._lingering -= 1

    def next_tick(self) -> asyncio.Future[None]:
        """Return a future that ends when streams have something to send."""
        self._streams.append(waits := self.loop.create_future())
        return waits

    def _tick(self) -> None:
        """Wake the streams. Called in another thread."""
        with suppress(RuntimeError):  # the loop has ended
            self.loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        waiting, self._streams = self._streams, []
        self._wake(waiting)

    def _wake(self, waiting: list[asyncio.Future[None]]) -> None:
        """Wake a few streams at a time. So a request that arrives meanwhile waits for a few frames, not for all."""
        for stream in waiting[:AT_ONCE]:
            if not stream.done():
                stream.set_result(None)
        if later := waiting[AT_ONCE:]:
            self.loop.call_soon(self._wake, later)

    async def end(self, within_s: float) -> None:
        """Accept nothing more, end the streams, and give running requests a moment."""
        for listener in self._listeners:
            self.loop.remove_reader(listener.fileno())
        self.services.stopping.set()
        self._wake_all()
        until = self.loop.time() + within_s
        while (any(self._in_work.values()) or self._tasks) and self.loop.time() < until:
            await asyncio.sleep(0.02)


def has_gone(connection: socket.socket) -> bool:
    """Return whether a TCP client has ended its side already. It gets no answer then, so its request costs little."""
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _CLOSE_WAIT


def begins_long_header(first: bytes) -> bool:
    """Return whether these bytes, the first of a connection, begin a header that is too long."""
    return len(first) > MOST_HEADER_BYTES and b"\n\n" not in first.replace(b"\r", b"")


class Connection(httputil.HTTPServerConnectionDelegate):
    """One connection, from its acceptance to its end."""

    def __init__(self, bridge: Bridge, kind: str, accepted: socket.socket, address: str) -> None:
        self.bridge, self.kind, self.socket, self.address = bridge, kind, accepted, address
        self.channel = Channel(kind == AGENTS, kind == UNIX, self._uid)
        self._places = bridge.places[kind]
        self._stream: IOStream | None = None
        self._has_served = self._has_answered = False
        self._timer: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Wait for the first byte. That costs little, so many silent connections cost little, too."""
        if not self._places.enter(self):
            self.refuse(429, "too-many-connections", "the server has too many connections; try again later")
            return
        self._expect(408, "too-slow", f"no complete header within {HEADER_S:.0f} s")
        if not self._begin():
            # By number: of a new socket, asyncio makes a text with both addresses, which costs two system calls.
            self.bridge.loop.add_reader(self.socket.fileno(), self._begin)

    def _begin(self) -> bool:
        """Let the first request have its turn, or end. Returns False if no byte has come."""
        try:
            first = self.socket.recv(MOST_HEADER_BYTES + 1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            first = b""
        self.bridge.loop.remove_reader(self.socket.fileno())
        if not first:
            self.end()
        elif self.kind != AGENTS and begins_long_header(first):
            self.linger()
            self.refuse(*LONG_HEADER)
        elif self.kind == PLAIN and not first.startswith(AGENTS_FIRST_BYTES):
            self._expect(503, "busy", "too many requests came at once; try again in a moment")
            self.bridge.pace.admit(self, self._read, is_health=first.startswith(HEALTH_FIRST_BYTES))
        else:
            self._read()
        return True

    def _read(self) -> bool:
        """Read the first request. Returns False if the client has gone."""
        if self.socket.fileno() < 0:
            return False
        if self.kind != UNIX and has_gone(self.socket):
            self.end()
            return False
        self._expect(408, "too-slow", f"no complete header within {HEADER_S:.0f} s")
        if self.kind == AGENTS and self.bridge.services.authority is not None:
            self.bridge.start(self._shake_hands(self.bridge.services.authority))
        else:
            self._serve(_Stream(self))
        return True

    def _expect(self, status: int, code: str, problem: str) -> None:
        """Refuse the client with this error, unless its request goes on within HEADER_S."""
        self._stop_timer()
        self._timer = self.bridge.loop.call_later(HEADER_S, self.refuse, status, code, problem)

    async def _shake_hands(self, authority: Authority) -> None:
        # Tornado closes the connection after a refusal, but the client must get its alert.
        kept = self.socket.dup()
        try:
            self.socket = secured = authority.context().wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )
            self._stream = stream = SSLIOStream(secured)
            async with asyncio.timeout(HANDSHAKE_S):
                await stream.wait_for_handshake()
            self.channel = Channel(True, False, self._uid, secured.getpeercert(binary_form=True))
            self._serve(stream)
        except ssl.SSLError as error:
            self.end()
            self.bridge.linger(kept)
            await asyncio.to_thread(self.bridge.services.refusals.note, self.address, reason(error))
        except OSError:  # also a TimeoutError
            self.end()
        finally:
            kept.close()

    def _serve(self, stream: IOStream) -> None:
        self._stream = stream
        HTTP1ServerConnection(stream, _HTTP).start_serving(self)

    def start_request(
        self, server_conn: object, request_conn: httputil.HTTPConnection
    ) -> httputil.HTTPMessageDelegate:
        """Expect the header of the next request. Tornado calls it."""
        if self._has_served:
            self._places.wait(self)
            self._timer = self.bridge.loop.call_later(KEEPALIVE_S, self.end)
        return Request(self, request_conn)

    def serve(self) -> None:
        """Note that a header is complete."""
        self._has_served = True
        self._stop_timer()
        self._places.serve(self)

    async def take_turn(self, kind: str) -> None:
        """Wait for the turn of a further request. The first one has had it before its header was read."""
        is_first, self._has_answered = not self._has_answered, True
        if is_first or self.kind != PLAIN or kind == "local-agents":
            return
        begins = self.bridge.loop.create_future()

        def begin() -> bool:
            begins.set_result(None)
            return self.is_open

        self.bridge.pace.admit(self, begin, is_health=kind == "health", is_first=False)
        await begins

    def on_close(self, server_conn: object) -> None:
        """Give the place back. Tornado calls it."""
        self.end()

    def make_room(self) -> None:
        if self._has_served:
            self.end()  # another answer would be taken for that of the next request
        else:
            problem = "the server has too many connections, and this one has waited longest"
            self.refuse(408, "made-room", problem)

    def refuse(self, status: int, code: str, problem: str) -> None:
        """Send the API's error document, and close the connection."""
        with suppress(OSError):
            if self._stream is not None:
                self._stream.write(refusal(status, code, problem))
                self.linger()
            elif self.kind != AGENTS:
                self.socket.send(refusal(status, code, problem))
        self.end()

    def linger(self) -> None:
        if self.kind != AGENTS:
            self.bridge.linger(self.socket)

    def end(self) -> None:
        """Close the connection. A second time changes nothing."""
        self._stop_timer()
        self._places.leave(self)
        if self._stream is not None:
            self._stream.close()
        elif self.socket.fileno() >= 0:
            self.bridge.loop.remove_reader(self.socket.fileno())
            self.socket.close()
        self.bridge.pace.forget(self)

    @property
    def is_open(self) -> bool:
        return self._stream is not None and not self._stream.closed()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _uid(self) -> int | None:
        """Return the caller's user id. Asked only for agents' documents at addresses without TLS."""
        return uid_of(self.socket)


class _Stream(IOStream):
    """A plain connection. Tornado closes it if a header is too long, but the client should read why."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection.socket, read_chunk_size=READ_BYTES)
        self._connection = connection

    def close(self, exc_info: Any = False) -> None:
        if isinstance(exc_info, UnsatisfiableReadError) and not self.closed():
            with suppress(OSError):
                self._connection.socket.send(refusal(*LONG_HEADER))
                self._connection.linger()
        super().close(exc_info)


class Request(httputil.HTTPMessageDelegate):
    """One request, from its header to the end of its answer."""

    def __init__(self, connection: Connection, http: httputil.HTTPConnection) -> None:
        self._connection, self._bridge, self._http = connection, connection.bridge, http
        self._body = bytearray()
        self._size = self._held = 0
        self._timer: asyncio.TimerHandle | None = None
        self._tick: asyncio.Future[None] | None = None
        self._leave: Callable[[], None] | None = None

    def headers_received(self, start_line: Any, headers: httputil.HTTPHeaders) -> None:
        self._line: httputil.RequestStartLine = start_line
        self._headers = headers
        self._connection.serve()
        self._path = unquoted_path(start_line.path)
        length = headers.get("Content-Length", "0")
        if "," in length:
            raise httputil.HTTPInputError("several lengths")
        if length.isdigit() and int(length[:15]) > DISCARDED_BYTES:
            self._refuse(413, "too-large", f"the body is larger than {DISCARDED_BYTES} bytes")
        elif self._path == STREAM_PATH and "Authorization" not in headers:
            try:  # without a place, it is refused at once, which costs no thread
                self._leave = self._bridge.services.streams.take(has_token=False)
            except ApiError as error:
                self._refuse(error.status, error.code, error.problem)
        if length != "0" or "Transfer-Encoding" in headers:
            self._began = self._bridge.loop.time()
            self._check_pace()

    def _check_pace(self) -> None:
        now = self._bridge.loop.time()
        left = self._began + BODY_S + self._size / BODY_RATE_BYTES - now
        if left > 0:
            self._timer = self._bridge.loop.call_later(left, self._check_pace)
        else:
            problem = f"the body did not arrive: {self._size} bytes in {now - self._began:.0f} s"
            self._refuse(408, "too-slow", problem)

    def data_received(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size > DISCARDED_BYTES:
            self._refuse(413, "too-large", f"the body is larger than {DISCARDED_BYTES} bytes")
        elif self._size <= most_body_bytes(self._path):
            self._body += chunk
            held, is_trusted = self._bridge.held, self._connection.channel.is_trusted
            self._held += len(chunk)
            held[is_trusted] += len(chunk)
            if held[is_trusted] > HELD_BYTES:
                self._refuse(503, "busy", "too many bodies arrive at the same time; try again in a moment")

    def finish(self) -> None:
        """Answer the request, which is complete."""
        if self._timer is not None:
            self._timer.cancel()
        most = most_body_bytes(self._path)
        if not self._connection.is_open:
            self._clear()
        elif self._size > most:
            problem = f"the body is larger than {most} bytes, which this endpoint allows"
            self._refuse(413, "too-large", problem)
            self._clear()
        else:
            self._http.set_close_callback(self._wake)  # type: ignore[attr-defined]
            self._bridge.start(self._answer())

    def on_connection_close(self) -> None:
        """Forget the request, which did not become complete."""
        if self._timer is not None:
            self._timer.cancel()
        self._clear()

    def _refuse(self, status: int, code: str, problem: str) -> None:
        self._connection.refuse(status, code, problem)

    def _clear(self) -> None:
        self._bridge.held[self._connection.channel.is_trusted] -= self._held
        self._held = 0
        if self._leave is not None:
            self._leave()

    async def _answer(self) -> None:
        environ: Environ = {}
        try:
            environ = self._environ()
            kind = kind_of(self._line.method, self._path, self._connection.channel)
            await self._connection.take_turn(kind)
            await asyncio.sleep(0)  # now the end of a client that has gone at once is known
            status, headers, body = await self._bridge.run(kind, lambda: self._view(environ))
            await self._send(status, headers, body, environ.get(STREAM))
        except ApiError as error:
            self._refuse(error.status, error.code, error.problem)
        except OSError:  # a client that has gone, or that takes its answer too slowly
            self._connection.end()
        except Exception:
            log.exception("a request failed: %s %s", self._line.method, self._path)
            self._connection.end()
        finally:
            if STREAM in environ:
                environ[STREAM].close()
            self._clear()

    def _view(self, environ: Environ) -> Answer:
        """Run the view, in a thread. Return status, headers and body of its answer; no body if it is a stream.

        Raises ConnectionError if the view only reads, and no one waits for its answer.
        """
        if self._line.method == "GET" and not self._connection.is_open:
            raise ConnectionError
        head: list[Any] = []

        def start_response(
            status: str, headers: list[tuple[str, str]], _error: object = None
        ) -> Callable[[bytes], object]:
            head[:] = [status, headers]
            return lambda _data: None

        result: Iterable[bytes] = self._bridge.app(environ, start_response)
        body = b""
        if STREAM not in environ:
            try:
                body = b"".join(result)
            finally:
                getattr(result, "close", lambda: None)()
        status, headers = head
        return int(status.split()[0]), headers, body

    async def _send(
        self, status: int, headers: Iterable[tuple[str, str]], body: bytes, stream: EventStream | None
    ) -> None:
        line, fields = httputil.ResponseStartLine("HTTP/1.1", status, phrase(status)), httputil.HTTPHeaders()
        for name, value in headers:
            fields.add(name, value)
        async with asyncio.timeout(ANSWER_S):
            await self._http.write_headers(line, fields, body)
        if stream is not None and self._line.method != "HEAD":
            await self._send_stream(stream)
        self._http.finish()

    async def _send_stream(self, stream: EventStream) -> None:
        frames = stream.greeting
        while self._connection.is_open:
            if frames:
                async with asyncio.timeout(FRAME_S):
                    await self._http.write(frames)
            if stream.is_over:
                return
            frames = stream.fresh()
            if not frames:
                self._tick = self._bridge.next_tick()
                await self._tick
                frames = stream.fresh()

    def _wake(self) -> None:
        """Let the request or its stream see that the client has gone."""
        self._bridge.pace.forget(self._connection)
        if self._tick is not None and not self._tick.done():
            self._tick.set_result(None)

    def _environ(self) -> Environ:
        """Return the WSGI environment (PEP 3333)."""
        connection, line = self._connection, self._line
        own = connection.socket.getsockname() if connection.address else ("localhost", 80)
        environ = {
            "REQUEST_METHOD": line.method,
            "SCRIPT_NAME": "",
            "PATH_INFO": self._path,
            "QUERY_STRING": line.path.partition("?")[2],
            "SERVER_NAME": str(own[0]),
            "SERVER_PORT": str(own[1]),
            "SERVER_PROTOCOL": line.version,
            "REMOTE_ADDR": connection.address,
            "CONTENT_LENGTH": str(len(self._body)),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "https" if connection.channel.is_agents else "http",
            "wsgi.input": BytesIO(self._body),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
            CHANNEL: connection.channel,
            PLACE: self._leave,
        }
        return environ | header_variables(self._headers)


def header_variables(headers: Mapping[str, str]) -> Environ:
    """Return the headers as a WSGI environment has them."""
    variables = {}
    for name, value in headers.items():
        key = name.upper().replace("-", "_")
        # The body is complete. A name with _ would be taken for one with -.
        if key not in ("CONTENT_LENGTH", "TRANSFER_ENCODING") and "_" not in name:
            variables[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value
    return variables


def unquoted_path(target: str) -> str:
    """Return the path of a request's target, as PATH_INFO has it."""
    return unquote_to_bytes(target.partition("?")[0].encode("latin-1")).decode("latin-1")


def refusal(status: int, code: str, problem: str) -> bytes:
    """Return a whole answer with the API's error document, after which the connection closes."""
    body = json.dumps({"error": {"code": code, "problem": problem, "field": None, "index": None}})
    retry = f"Retry-After: {RETRY_AFTER_S}\r\n" if status in BUSY else ""
    head = f"HTTP/1.1 {status} {phrase(status)}\r\nContent-Type: application/json\r\n{retry}"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()


def phrase(status: int) -> str:
    return HTTPStatus(status).phrase
