# SPDX-License-Identifier: Apache-2.0
"""A gRPC server that declares its responses. tests/kernel/test_grpc.py shows the flows in the kernel."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from sluice.hostagent.sockets.grpc import address_of, wire_bytes
from sluice.runtime.process import stop
from sluice.runtime.wait import wait_until
from tests.kit.pages import ROOT

EXAMPLE = ROOT / "hostagent" / "examples" / "grpc_deadlines.py"


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.1:5000", ("10.0.0.1", 5000)),
        ("ipv6:%5B::1%5D:5000", ("::1", 5000)),
        ("ipv6:%5B::ffff:10.0.0.1%5D:5000", ("10.0.0.1", 5000)),
        ("unix:/run/server.sock", None),
        ("unix:", None),
    ],
)
def test_address_of__the_peers_that_grpc_writes(peer: str, address: tuple[str, int] | None) -> None:
    assert address_of(peer) == address


def test_wire_bytes__frames_head_and_tls() -> None:
    assert wire_bytes(0, False) == 160 + 9
    assert wire_bytes(100_000, False) == 100_000 + 160 + 7 * 9
    assert 0 < wire_bytes(100_000, True) - wire_bytes(100_000, False) < 300


@pytest.fixture
def server() -> Iterator[str]:
    """The address of the example's server."""
    process = subprocess.Popen([sys.executable, str(EXAMPLE), "serve", "127.0.0.1:0"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    found = re.search(r"127\.0\.0\.1:\d+", process.stdout.readline().decode())
    assert found is not None
    yield found[0]
    stop(process)


def test_example__serves_without_an_agent_and_closes_connections(server: str) -> None:
    """If the interceptor kept a duplicate of the socket, the server's end would stay open."""
    call = [sys.executable, str(EXAMPLE), "call", server, "200000", "20000", "3"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "3 calls of 200000 bytes, 0 later than 20000 ms\n"), (
        done.stderr
    )
    port = server.rpartition(":")[2]
    wait_until(
        lambda: (
            not subprocess.run(
                ["ss", "-Htn", "state", "close-wait", f"sport = :{port}"], capture_output=True, check=True
            ).stdout
        ),
        "the server has closed the connection",
    )
