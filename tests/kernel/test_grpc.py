# SPDX-License-Identifier: Apache-2.0
"""gRPC servers that declare their responses: each is a flow of its own, with the deadline of its call."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.dataplane.sockopt import Attachment
from sluice.dataplane.watch import Connection, Watch
from sluice.runtime.process import stop
from sluice.runtime.wait import wait_until
from tests.kernel.conftest import V4, Pair
from tests.kit import go
from tests.kit.pages import ROOT

ADDRESS = f"{V4['a']}:5051"
SIZE, DEADLINE_MS, CALLS = 60_000, 20_000, 3
"""SIZE fits the first window of HTTP/2. A larger response waits for the client, and an idle gap would end its flow."""
ROUNDED_UP = 1.01
"""gRPC sends a timeout with three digits, rounded up."""


@pytest.fixture(params=["python", pytest.param("go", marks=pytest.mark.go)])
def example(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The command of the example in a language."""
    if request.param == "go":
        return [str(go.program("./example", tmp_path / "example", go.GRPC))]
    return [sys.executable, str(ROOT / "hostagent" / "examples" / "grpc_deadlines.py")]


@pytest.fixture
def server(
    hook: Attachment, pair: Pair, watch: Watch, example: list[str]
) -> Iterator[subprocess.Popen[bytes]]:
    """The example's server on host a, which is watched."""
    with pair.a:
        process = subprocess.Popen([*example, "serve", ADDRESS])
    wait_until(lambda: ":5051" in pair.a.run("ss", "-Hltn"), "the server listens")
    yield process
    stop(process)


def test_each_response_is_a_flow_with_the_deadline_of_its_call(
    server: subprocess.Popen[bytes], pair: Pair, watch: Watch, example: list[str]
) -> None:
    printed = pair.b.run(*example, "call", ADDRESS, str(SIZE), str(DEADLINE_MS), str(CALLS))
    assert f"{CALLS} calls of {SIZE} bytes, 0 later than" in printed
    found: list[Connection] = []  # the settings of HTTP/2 are a flow, too

    def responses() -> list[Connection]:
        found.extend(watch.ended())
        return [flow for flow in found if flow.sent_bytes > SIZE]

    wait_until(lambda: len(responses()) >= CALLS, "a flow for each response")
    for flow in responses():
        assert flow.declared_start_ns is not None
        assert flow.declared_deadline_ns is not None
        allowed_ms = (flow.declared_deadline_ns - flow.declared_start_ns) / 1e6
        assert 0.5 * DEADLINE_MS < allowed_ms <= ROUNDED_UP * DEADLINE_MS
