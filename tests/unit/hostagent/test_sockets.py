# SPDX-License-Identifier: Apache-2.0

import asyncio
import errno
import math
import os
import socket
import ssl
import struct
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.hostagent import sockets
from sluice.hostagent.sockets import NoAgent, WrongField, declare, http, options, state
from sluice.hostagent.sockets.flow import FLOW, pack_flow, unpack_flow
from sluice.policy.errors import FieldError
from sluice.runtime.command import run


class FakeSocket:
    """A socket that answers like the kernel, or refuses with an errno."""

    def __init__(self, answer: bytes = b"", refuses: int = 0, protocol: int = socket.IPPROTO_TCP) -> None:
        self.answer, self.refuses, self.protocol = answer, refuses, protocol
        self.values: list[bytes] = []

    def getsockopt(self, level: int, option: int, room: int) -> bytes:
        if level == socket.SOL_SOCKET:
            return struct.pack("=i", self.protocol if option == socket.SO_PROTOCOL else 0)
        if self.refuses:
            raise OSError(self.refuses, os.strerror(self.refuses))
        assert len(self.answer) == room
        return self.answer

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        assert (level, option) == (0x5C1C, 1)
        if self.refuses:
            raise OSError(self.refuses, os.strerror(self.refuses))
        self.values.append(value)


def test_pack_flow__every_field_in_its_unit() -> None:
    value = pack_flow(
        size_bytes=7,
        deadline_s=0.025,
        elapsed_s=0.001,
        importance=2.5,
        importance_share=0.25,
        quench="suspend",
        congestion_control="sluice_datcp",
    )
    assert FLOW.unpack(value) == (31, 2, 7, 25_000_000, 1_000_000, 2500, 250, b"sluice_datcp\0\0\0\0")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"size_bytes": 0}, "size_bytes: "),
    ({"size_bytes": 2**64}, "size_bytes: "),
    ({"size_bytes": "10KB"}, "size_bytes: must be a whole number of bytes, not '10KB': write 10000$"),
    ({"size_bytes": 1e6}, r"size_bytes: must be a whole number of bytes, not 1000000.0: write 1000000$"),
    ({"size_bytes": math.inf}, "size_bytes: .* not inf$"),
    ({"deadline_s": -1.5}, "deadline_s: "),
    ({"deadline_s": 1e-10}, "deadline_s: "),
    ({"deadline_s": 1e12}, "deadline_s: "),
    ({"deadline_s": math.nan}, "deadline_s: "),
    ({"deadline_s": "5ms"}, "deadline_s: must be a number of seconds, not '5ms': write 0.005$"),
    ({"deadline_s": "soon"}, "deadline_s: .* not 'soon'$"),
    ({"deadline_s": True}, "deadline_s: .* not True$"),
    ({"deadline_s": timedelta(milliseconds=5)}, "deadline_s: .* not a timedelta: write 0.005$"),
    ({"elapsed_s": 1.0}, "elapsed_s: "),
    ({"deadline_s": 1.0, "elapsed_s": -1.0}, "elapsed_s: "),
    ({"importance": 0}, "importance: "),
    ({"importance": 8.1}, "importance: "),
    ({"importance_share": 0.5}, "importance_share: "),
    ({"importance": 1, "importance_share": 1.01}, "importance_share: "),
    ({"importance": 1, "importance_share": []}, r"importance_share: must be a number, not \[\]$"),
    ({"quench": "postpone"}, "quench: "),
    ({"congestion_control": "sixteen_letters_"}, "congestion_control: "),
    ({"congestion_control": "a\0b"}, "congestion_control: "),
    ({"congestion_control": 5}, "congestion_control: must be a name"),
    ({}, r"declare: names no field: give at least one, .*; undeclare\(\) begins a flow"),
    (
        {"size_bytes": 10**9, "deadline_s": 0.001},
        r"deadline_s: is hopeless: 1000000000 bytes in 0.001 s need 8,000 Gb/s, and no link has more than 800",
    ),
]


@pytest.mark.parametrize(("flow", "message"), WRONG)
def test_declare__a_wrong_value_names_its_field_and_what_to_write_and_never_reaches_the_kernel(
    flow: dict[str, Any], message: str
) -> None:
    sock = FakeSocket()
    with pytest.raises(WrongField, match=f"^{message}") as raised:
        declare(sock, **flow)
    assert isinstance(raised.value, FieldError)
    assert isinstance(raised.value, ValueError)
    assert not sock.values


def test_declare__the_fastest_link_can_meet_its_deadline() -> None:
    sock = FakeSocket()
    declare(sock, size_bytes=100_000_000, deadline_s=0.001)
    sockets.undeclare(sock)
    assert len(sock.values) == 2
    assert sock.values[1] == bytes(56), "a flow of which nothing is known"


def test_declare__refusals_keep_their_cause() -> None:
    refusals: tuple[tuple[int, dict[str, Any], type[Exception], str], ...] = (
        (errno.ENOPROTOOPT, {"size_bytes": 1}, NoAgent, "no Sluice agent serves this network namespace"),
        (errno.EINVAL, {"congestion_control": "sluice_x"}, WrongField, "sluice_x is not registered"),
        (errno.EPERM, {"congestion_control": "cubic"}, WrongField, "cubic is only for root"),
        (errno.EOPNOTSUPP, {"size_bytes": 1}, OSError, "only a TCP socket"),
        (errno.ENOMEM, {"size_bytes": 1}, OSError, "memory"),
    )
    for number, flow, kind, text in refusals:
        with pytest.raises(kind, match=text) as raised:
            declare(FakeSocket(refuses=number), **flow)
        cause = raised.value.__cause__ or raised.value
        assert isinstance(cause, OSError)
        assert cause.errno == number


def test_state__no_agent_on_a_tcp_socket() -> None:
    for number in (errno.ENOPROTOOPT, errno.EOPNOTSUPP):
        for ask in (state, sockets.declared):
            with pytest.raises(NoAgent, match="sluice doctor"):
                ask(FakeSocket(refuses=number))
    with pytest.raises(OSError, match="only a TCP socket"):
        state(FakeSocket(refuses=errno.EOPNOTSUPP, protocol=socket.IPPROTO_UDP))


def test_state__fixed_point_becomes_numbers() -> None:
    values = (1, 3, 4000, 5000, 6000, 1 << 19, 3 << 15, 1 << 17, 1 << 14, 10, 2, 1, 4)
    now = state(FakeSocket(options.STATE.pack(*values)))
    assert (now.phase, now.windows, now.acked_bytes) == (sockets.Phase.SUSPENDED, 3, 4000)
    assert (now.rate_bytes_per_s, now.wanted_bytes_per_s) == (5000, 6000)
    assert (now.alpha, now.urgency, now.precedence, now.decrease) == (0.5, 1.5, 2.0, 0.25)
    assert (now.cwnd_packets, now.cuts, now.quenches, now.resumes) == (10, 2, 1, 4)
    endless = options.STATE.pack(2, 0, 0, 0, 2**64 - 1, *[0] * 8)
    assert state(FakeSocket(endless)).wanted_bytes_per_s == math.inf
    assert state(FakeSocket(endless)).phase == sockets.Phase.KILLED


# Messages that declare their sizes by themselves. tests/kernel/test_tutorial.py shows the tags of their packets.


def response(body: int, *more: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", "Server: x", f"Content-Length: {body}", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def declared_sizes(*writes: bytes) -> list[int]:
    sizes = http.MessageSizes()
    found = [piece for data in writes for piece in sizes.pieces(data)]
    return [piece.size_bytes for piece in found if piece.size_bytes is not None]


HEAD = response(1000)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("writes", "sizes"),
    [
        ([HEAD, bytes(1000)], [len(HEAD) + 1000]),
        ([HEAD + bytes(10), bytes(990), HEAD, bytes(1000)], [len(HEAD) + 1000] * 2),
        ([HEAD + bytes(1000) + response(7) + bytes(7)], [len(HEAD) + 1000, len(response(7)) + 7]),
        ([HEAD[:9], HEAD[9:40], HEAD[40:] + bytes(1000)], [len(HEAD) + 1000]),
        ([response(5).replace(b"Content-L", b"cONTENT-l"), bytes(5)], [len(response(5)) + 5]),
        ([CHUNKED, b"5\r\nhello\r\n0\r\n\r\n", HEAD], [http.UNKNOWN, len(HEAD) + 1000]),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", HEAD], [25, len(HEAD) + 1000]),
        ([HEAD, HEAD + bytes(1000)], [len(HEAD) + 1000] * 2),  # the first one answers HEAD
        ([b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"], [18, 18]),
        ([b"PUT /a HTTP/1.1\r\nContent-Length: 90\r\n\r\n" + bytes(90)], [129]),
        ([b"HTTP/1.1 101 Switching\r\n\r\n", b"\x81\x05hello"], [26, http.UNKNOWN]),
        ([b"SSH-2.0-x\r\n"], [http.UNKNOWN]),
    ],
)  # fmt: skip
def test_pieces__each_message_is_declared_with_its_size(writes: list[bytes], sizes: list[int]) -> None:
    assert declared_sizes(*writes) == sizes


@given(
    st.lists(st.integers(0, 300), max_size=5).map(
        lambda sizes: b"".join(response(n) + bytes(n) for n in sizes)
    ),
    st.lists(st.integers(0, 2000), max_size=8),
)
def test_pieces__are_the_bytes_that_were_written_however_they_are_cut(stream: bytes, cuts: list[int]) -> None:
    sizes = http.MessageSizes()
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    written = [stream[a:b] for a, b in pairwise(places)]
    pieces = [piece.data for data in written for piece in sizes.pieces(data)]
    assert b"".join(pieces) + sizes.rest() == stream
    assert all(pieces)


def test_pieces__a_head_that_does_not_end_is_passed_on() -> None:
    endless = b"HTTP/1.1 200 OK\r\n" + b"x" * http.LONGEST_HEAD_BYTES
    assert [piece.data for piece in http.MessageSizes().pieces(endless)] == [endless]


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

    async with await http.start_server(handle, "127.0.0.1", 0) as server:
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
    pair: Path = tmp_path_factory.mktemp("tls") / "pair.pem"
    elliptic = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    made = ["-nodes", "-subj", "/CN=server", "-keyout", str(pair), "-out", f"{pair}.crt"]
    run(["openssl", "req", "-x509", *elliptic, *made])
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(f"{pair}.crt", pair)
    client.load_verify_locations(f"{pair}.crt")
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
@pytest.mark.parametrize("size_bytes", [100, 300_000])
def test_tls_bytes__is_what_openssl_adds_and_a_little_more(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], version: ssl.TLSVersion, size_bytes: int
) -> None:
    connected = Connected(contexts, version)
    expected = http.tls_bytes(connected.server.version(), size_bytes)
    for writes in ([bytes(size_bytes)], [bytes(90), bytes(size_bytes - 90)]):
        on_wire = connected.wire_bytes(writes)
        assert size_bytes < on_wire
        assert 0 <= expected - on_wire <= 2 * 29
