# SPDX-License-Identifier: Apache-2.0
"""The bytes that TLS adds, compared with those that OpenSSL adds."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from sluice.hostagent.sockets.http import tls_bytes
from tests.fakes.certificates import Authority


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
