# SPDX-License-Identifier: Apache-2.0
"""HTTP servers whose responses declare their sizes by themselves: every packet carries the class of its response."""

from __future__ import annotations

import http.client
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.dataplane.sockopt import Attachment
from sluice.dataplane.tagger import Tagger, TagSettings
from sluice.policy.tags import known_size_tag
from sluice.runtime.wait import wait_until
from tests.kernel.capture import Capture
from tests.kernel.conftest import V4, Pair

EXAMPLES = Path(__file__).parents[2] / "hostagent" / "examples"
PORT = 8080
SIZES = (20_000, 3_000_000, 300_000, 12_000_000, 20_000)
"""Of the responses on one connection: every class, and not in order."""


@pytest.fixture
def server(hook: Attachment, pair: Pair) -> Iterator[None]:
    """The example server on host a, whose tagger shows sizes."""
    argv = [sys.executable, str(EXAMPLES / "http_sizes.py"), V4["a"], str(PORT)]
    with pair.a, Tagger(TagSettings(60_000_000_000, sizes=True)) as tagger:
        tagger.attach("eth0")
        process = subprocess.Popen(argv)
    try:
        wait_until(lambda: f":{PORT}" in pair.a.run("ss", "-Hltn"), "the server listens")
        yield
    finally:
        process.kill()
        process.wait()


def test_every_packet_of_a_response_carries_its_class(server: None, pair: Pair) -> None:
    with pair.b, Capture(pair.b, "eth0") as capture:
        client = http.client.HTTPConnection(V4["a"], PORT, timeout=300)
        for size in SIZES:
            client.request("GET", f"/{size}")
            body = client.getresponse().read()
            assert len(body) == size
            data = [
                packet for packet in capture.packets() if packet.source_port == PORT and packet.data_bytes
            ]
            assert sum(packet.data_bytes for packet in data) > size
            assert {packet.dscp for packet in data} == {known_size_tag(size)}
        client.close()
