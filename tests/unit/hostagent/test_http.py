# SPDX-License-Identifier: Apache-2.0
"""Messages that declare their sizes by themselves. tests/kernel/test_http_sizes.py shows the tags of their packets."""

from __future__ import annotations

import asyncio
import ssl
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.hostagent.sockets import http, options
from sluice.hostagent.sockets.flow import pack_flow, unpack_flow
from sluice.hostagent.sockets.http import UNKNOWN, MessageSizes, start_server, tls_bytes
from tests.fakes.certificates import Authority


def response(body: int, *more: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", "Server: x", f"Content-Length: {body}", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def declared(*writes: bytes) -> list[int]:
    sizes = MessageSizes()
    found = [piece for data in writes for piece in sizes.pieces(data)]
    return [piece.size_bytes for piece in found if piece.size_bytes is not None]


HEAD = response(1000)
UNCHANGED = response(1000, status="304 Not Modified")
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("writes", "sizes"),
    [
        ([HEAD, bytes(1000)], [len(HEAD) + 1000]),
        ([HEAD + bytes(1000)], [len(HEAD) + 1000]),
        ([HEAD + bytes(10), bytes(990), HEAD, bytes(1000)], [len(HEAD) + 1000] * 2),
        ([HEAD + bytes(1000) + response(7) + bytes(7)], [len(HEAD) + 1000, len(response(7)) + 7]),
        ([HEAD[:9], HEAD[9:40], HEAD[40:] + bytes(1000)], [len(HEAD) + 1000]),
        ([response(5).replace(b"Content-L", b"cONTENT-l"), bytes(5)], [len(response(5)) + 5]),
        ([CHUNKED, b"5\r\nhello\r\n0\r\n\r\n", HEAD], [UNKNOWN, len(HEAD) + 1000]),
        ([b"HTTP/1.1 200 OK\r\n\r\n", bytes(50)], [UNKNOWN]),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", HEAD], [25, len(HEAD) + 1000]),
        ([UNCHANGED, HEAD], [len(UNCHANGED), len(HEAD) + 1000]),
        ([HEAD, HEAD + bytes(1000)], [len(HEAD) + 1000] * 2),  # the first one answers HEAD
        ([b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"], [18, 18]),
        ([b"PUT /a HTTP/1.1\r\nContent-Length: 90\r\n\r\n" + bytes(90)], [129]),
        ([b"HTTP/1.1 101 Switching\r\n\r\n", b"\x81\x05hello"], [26, UNKNOWN]),
        ([b"SSH-2.0-x\r\n"], [UNKNOWN]),
    ],
)  # fmt: skip
def test_pieces__each_message_is_declared_with_its_size(writes: list[bytes], sizes: list[int]) -> None:
    assert declared(*writes) == sizes


@given(
    st.lists(st.integers(0, 300), max_size=5).map(
        lambda sizes: b"".join(response(n) + bytes(n) for n in sizes)
    ),
    st.lists(st.integers(0, 2000), max_size=8),
)
def test_pieces__are_the_bytes_that_were_written_however_they_are_cut(stream: bytes, cuts: list[int]) -> None:
    sizes = MessageSizes()
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    written = [stream[a:b] for a, b in pairwise(places)]
    pieces = [piece.data for data in written for piece in sizes.pieces(data)]
    assert b"".join(pieces) + sizes.rest() == stream
    assert all(pieces)


def test_pieces__a_head_that_does_not_end_is_passed_on() -> None:
    endless = b"HTTP/1.1 200 OK\r\n" + b"x" * http.LONGEST_HEAD_BYTES
    assert [piece.data for piece in MessageSizes().pieces(endless)] == [endless]


async def _fetch(port: int, wanted: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"go\r\n")
    answer = await reader.readexactly(wanted)
    writer.close()
    return answer


async def _served(*parts: bytes) -> bytes:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        for part in parts:
            writer.write(part)
        await writer.drain()
        writer.close()

    async with await start_server(handle, "127.0.0.1", 0) as server:
        return await _fetch(server.sockets[0].getsockname()[1], sum(map(len, parts)))


def test_start_server__passes_all_bytes_on() -> None:
    parts = (HEAD, bytes(1000), CHUNKED, b"0\r\n\r\n", b"HTTP/1.1 20")
    assert asyncio.run(_served(*parts)) == b"".join(parts), "an unfinished head is sent at the end"


def test_start_server__declares_before_it_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int | None] = []

    def note(sock: object, **flow: Any) -> None:
        calls.append(unpack_flow(pack_flow(**flow)).size_bytes)

    monkeypatch.setattr(options, "put", note)
    asyncio.run(_served(HEAD, bytes(1000), CHUNKED, b"0\r\n\r\n"))
    assert calls == [len(HEAD) + 1000, None]


# ── The bytes that TLS adds, compared with those that OpenSSL adds ─────────────────────────────


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of a server and a client."""
    folder: Path = tmp_path_factory.mktemp("tls")
    authority = Authority(folder, "ca")
    pair = authority.issue("server")
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(pair.certificate, pair.key)
    client.load_verify_locations(authority.certificate)
    client.check_hostname = False
    return server, client


class Connected:
    """A server and a client whose handshake is done."""

    def __init__(self, contexts: tuple[ssl.SSLContext, ssl.SSLContext], version: ssl.TLSVersion) -> None:
        self.there, self.back = ssl.MemoryBIO(), ssl.MemoryBIO()
        for context in contexts:
            context.minimum_version = context.maximum_version = version
        self.server = contexts[0].wrap_bio(self.back, self.there, server_side=True)
        self.client = contexts[1].wrap_bio(self.there, self.back)
        for end in (self.client, self.server, self.client, self.server):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
        self.there.read()

    def wire_bytes(self, writes: list[bytes]) -> int:
        for data in writes:
            self.server.write(data)
        return len(self.there.read())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("size_bytes", [100, 20_000, 300_000, 3_000_000])
def test_tls_bytes__is_what_openssl_adds_and_a_little_more(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], version: ssl.TLSVersion, size_bytes: int
) -> None:
    connected = Connected(contexts, version)
    expected = tls_bytes(connected.server.version(), size_bytes)
    for writes in ([bytes(size_bytes)], [bytes(90), bytes(size_bytes - 90)]):
        on_wire = connected.wire_bytes(writes)
        assert size_bytes < on_wire
        assert 0 <= expected - on_wire <= 2 * 29
