# SPDX-License-Identifier: Apache-2.0
"""The server of docs/tutorials/rpc-server.md declares each answer with the deadline in its request."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.dataplane.sockopt import Attachment
from sluice.dataplane.watch import Connection, Watch
from sluice.runtime.process import stop
from sluice.runtime.wait import wait_until
from tests.kernel.conftest import V4, Pair
from tests.kit.pages import DOCS, ROOT, of_order

URL = f"http://{V4['a']}:9000"
PATHS = {"/20000/1000": 1_000, "/30000/700": 700, "/1000/50": 50}
"""Path → its deadline in ms."""


def test_each_answer_is_a_flow_with_its_deadline(
    hook: Attachment, pair: Pair, watch: Watch, tmp_path: Path
) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    [page] = of_order(DOCS / "tutorials" / "rpc-server.md", "save")
    server = tmp_path / page.argument
    server.write_text(page.text)
    with pair.a:
        process = subprocess.Popen(
            [sys.executable, server, "9000"], env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
    try:
        wait_until(lambda: ":9000" in pair.a.run("ss", "-Hltn"), "the server listens")
        sinks = ["-o", os.devnull] * len(PATHS)
        pair.b.run("curl", "-sS", "--rate", "30/s", *sinks, *(URL + path for path in PATHS))
        found: list[Connection] = []

        def all_ended() -> bool:
            found.extend(watch.ended())
            return len(found) >= len(PATHS)

        wait_until(all_ended, "a flow for each answer")
    finally:
        stop(process)
    allowed = [(flow.declared_deadline_ns or 0) - (flow.declared_start_ns or 0) for flow in found]
    assert allowed == [milliseconds * 10**6 for milliseconds in PATHS.values()]
