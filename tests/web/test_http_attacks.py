# SPDX-License-Identifier: Apache-2.0
"""Requests that no honest client sends, byte for byte, to a real server: each gets one answer, and no traceback."""

import re
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import requests

from sluice.policy.wire.agents import MAX_HEARTBEAT_BYTES
from sluice.webui.bridge import DISCARDED_BYTES
from tests.kit.heartbeats import document, host_heartbeat
from tests.web.conftest import PATIENCE_S, TOKEN, Server, eventually

CLOSE = b"Connection: close\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"2\r\n[]\r\n0\r\n\r\n"
DIGITS_OF_NO_INT = 5000
"""Python turns no text of so many digits into a number."""


def get(path: bytes = b"/api/v1/schemes", headers: bytes = b"", *, method: bytes = b"GET") -> bytes:
    return method + b" " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n"


def post(headers: bytes, body: bytes = b"[]") -> bytes:
    return get(b"/api/v1/flows", b"Content-Type: application/json\r\n" + headers, method=b"POST") + body


def exchange(server: Server, request: bytes) -> bytes:
    """Send bytes and return everything that comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def statuses(answer: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


@pytest.fixture(autouse=True)
def no_traceback(shared_server: Server) -> Iterator[None]:
    yield
    assert "Traceback" not in (shared_server.folder / "web.log").read_text()


FRAMING = {
    "two lengths": (post(b"Content-Length: 2\r\nContent-Length: 3\r\n"), 400),
    "one length twice": (post(b"Content-Length: 2\r\nContent-Length: 2\r\n"), 400),
    "list of lengths": (post(b"Content-Length: 2, 2\r\n"), 400),
    "length and chunks": (post(b"Content-Length: 2\r\n" + CHUNKED, CHUNKS), 400),
    "chunks twice": (post(CHUNKED + CHUNKED, CHUNKS), 400),
    "a coding after chunked": (post(b"Transfer-Encoding: chunked, identity\r\n", CHUNKS), 400),
    "a coding before chunked": (post(b"Transfer-Encoding: gzip, chunked\r\n", CHUNKS), 400),
    "a coding with another character": (post(b"Transfer-Encoding: \x0bchunked\r\n", CHUNKS), 400),
    "an unknown coding": (post(b"Transfer-Encoding: xchunked\r\n", CHUNKS), 400),
    "a space before the colon": (post(b"Transfer-Encoding : chunked\r\nContent-Length: 2\r\n"), 400),
    "a signed length": (post(b"Content-Length: +2\r\n"), 400),
    "a length with _": (post(b"Content-Length: 1_0\r\n"), 400),
    "a length beyond all limits": (post(b"Content-Length: %d\r\n" % (DISCARDED_BYTES + 1)), 413),
    "a length of 400 digits": (post(b"Content-Length: " + b"9" * 400 + b"\r\n"), 413),
    "a length that is no int": (post(b"Content-Length: " + b"9" * DIGITS_OF_NO_INT + b"\r\n"), 413),
    "a chunk in C's hexadecimal": (post(CHUNKED, b"0x2\r\n[]\r\n0\r\n\r\n"), 400),
    "a negative chunk": (post(CHUNKED, b"-2\r\n[]\r\n0\r\n\r\n"), 400),
    "a chunk without its end": (post(CHUNKED, b"2\r\n[]XX0\r\n\r\n"), 400),
    "a Host after the body": (post(CHUNKED, b"2\r\n[]\r\n0\r\nHost: evil.example\r\n\r\n"), 400),
    "a folded line": (get(headers=b"X: a\r\n b\r\n"), 400),
    "NUL in a header": (get(headers=b"X: a\x00b\r\n"), 400),
    "zeros": (b"\0" * 1000 + b"\r\n\r\n", 400),
    "HTTP/0.9": (b"GET /api/v1/schemes\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "a long header": (get(headers=b"X: " + b"a" * 100_000 + b"\r\n"), 431),
    "a long head of short headers": (
        get(headers=b"".join(b"X-%d: %s\r\n" % (i, b"y" * 8000) for i in range(90))),
        431,
    ),
}


@pytest.mark.parametrize(("request_bytes", "status"), FRAMING.values(), ids=FRAMING)
def test_framing__what_another_server_may_read_otherwise_is_refused(
    shared_server: Server, request_bytes: bytes, status: int
) -> None:
    assert statuses(exchange(shared_server, request_bytes)) == [status]


HEADS = {
    "a foreign host": (b"Host: evil.example\r\n", 421),
    "two hosts": (b"Host: localhost\r\nHost: evil.example\r\n", 421),
    "an empty host": (b"Host: \r\n", 421),
    "no host": (b"", 400),
    "a forwarded host": (b"Host: localhost\r\nX-Forwarded-Host: evil.example\r\n", 200),
}


@pytest.mark.parametrize(("headers", "status"), HEADS.values(), ids=HEADS)
def test_host(shared_server: Server, headers: bytes, status: int) -> None:
    answer = exchange(shared_server, b"GET /api/v1/schemes HTTP/1.1\r\n" + headers + CLOSE + b"\r\n")
    assert statuses(answer) == [status]


TARGETS = {
    "/../../etc/passwd": 404,
    "/static/..%2f..%2f..%2fetc/passwd": 404,
    "/static/%2e%2e/app.py": 404,
    "/static/..%5c..%5capp.py": 404,
    "/static/a%00.js": 404,
    "http://evil.example/api/v1/schemes": 404,
    "//evil.example/api/v1/schemes": 404,
    "//evil.example/%2e%2e": 404,
    "/api/v1/schemes%0d%0aX-Evil:%20y": 404,
    "/api//v1/health%0d%0aX-Evil:%20y": 404,
    "/api/v1/flows?src=%ed%a0%80": 422,
    "/api/v1/flows?src=h1%0a": 422,
    "/api/v1/flows?limit=%D9%A2": 422,
    f"/api/v1/flows?limit={'9' * 4000}": 422,
    f"/api/v1/flows?before=-{'9' * 400}": 422,
    f"/api/v1/events?count={'9' * 400}": 422,
    "/api/v1/fct?window_s=1e400": 422,
    "/api/v1/fct?window_s=nan": 422,
    "/api/v1/ports?since=1e308": 422,
    f"/api/v1/fct?window_s={'9' * DIGITS_OF_NO_INT}": 422,
    f"/{'a' * 100_000}": 431,
}


@pytest.mark.parametrize(("target", "status"), TARGETS.items(), ids=[target[:40] for target in TARGETS])
def test_target(shared_server: Server, target: str, status: int) -> None:
    answer = exchange(shared_server, get(target.encode(), CLOSE))
    assert statuses(answer) == [status]
    head = answer.partition(b"\r\n\r\n")[0].lower()
    assert b"x-evil" not in head
    assert b"location:" not in head


@pytest.mark.parametrize("method", [b"TRACE", b"PATCH", b"DELETE", b"PROPFIND"])
def test_method__others_are_a_405(shared_server: Server, method: bytes) -> None:
    assert statuses(exchange(shared_server, get(headers=CLOSE, method=method))) == [405]


def test_authorization__the_token_in_a_second_header_is_a_401(shared_server: Server) -> None:
    headers = b"Authorization: Bearer a\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n" + CLOSE
    assert statuses(exchange(shared_server, get(b"/api/v1/audit", headers))) == [401]


def test_method__no_other_site_gets_leave(shared_server: Server) -> None:
    asks = b"Origin: http://evil.example\r\nAccess-Control-Request-Method: PUT\r\n" + CLOSE
    for path in (b"/api/v1/policy", b"/api/v1/flows"):
        assert b"access-control-" not in exchange(shared_server, get(path, asks, method=b"OPTIONS")).lower()


def test_method__head_of_a_stream_ends_at_once(shared_server: Server) -> None:
    answer = exchange(shared_server, get(b"/api/v1/events", CLOSE, method=b"HEAD"))
    assert statuses(answer) == [200]
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("name", ["a signed length", "a length that is no int", "a coding before chunked"])
def test_pipelining__a_wrong_request_behind_another_is_refused_too(shared_server: Server, name: str) -> None:
    wrong, status = FRAMING[name]
    assert statuses(exchange(shared_server, get() + wrong)) == [200, status]


def test_pipelining__each_request_gets_one_answer_in_order(shared_server: Server) -> None:
    answer = exchange(
        shared_server, get(b"/no") * 3 + post(b"Content-Length: 2\r\n") + get(b"/static/", CLOSE)
    )
    assert statuses(answer) == [404, 404, 404, 200, 404]


def test_small_chunks__do_not_hold_up_others(shared_server: Server) -> None:
    """A body in chunks of one byte costs the loop's thread 50 times what it costs the sender."""
    ended = threading.Event()
    flood = post(CHUNKED, b"1\r\n \r\n" * 40_000)

    def attack() -> None:
        while not ended.is_set():
            try:
                exchange(shared_server, flood)
            except OSError:
                continue  # the server ends it early

    threads = [threading.Thread(target=attack) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        began = time.monotonic()
        for _ in range(2):
            shared_server.get("health")
        assert time.monotonic() - began < 15, "without the limit, one answer takes longer"
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_text_of_others__is_one_line_of_the_log_and_of_the_stream(shared_server: Server) -> None:
    wrong = {
        **document(host_heartbeat()),
        "pid": -1,
        "version": "9\n\ndata: forged\x1b[2J" + "v" * (MAX_HEARTBEAT_BYTES // 2),
    }
    refused = requests.post(f"{shared_server.url}/api/v1/agents/liar", json=wrong, timeout=PATIENCE_S)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "other-version")
    log = shared_server.folder / "web.log"
    eventually(lambda: "refused liar" in log.read_text(), "the line of the log")
    [line] = [line for line in log.read_text().split("\n") if "forged" in line]
    assert "refused liar: the agent is Sluice 9 data: forged [2J" in line
    assert len(line) < 1000
    stream = exchange(shared_server, get(b"/api/v1/events?count=1", b"Last-Event-ID: 0\r\n" + CLOSE))
    events = [line for line in stream.split(b"\n") if b"forged" in line]
    assert events
    assert all(line.startswith(b"data: {") and len(line) < 20_000 for line in events)
