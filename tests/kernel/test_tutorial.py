# SPDX-License-Identifier: Apache-2.0
"""The programs that pages show, as a reader runs them."""

import http.client
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.dataplane.sockopt import Attachment
from sluice.dataplane.tagger import Tagger, TagSettings
from sluice.dataplane.watch import Connection, Watch
from sluice.policy.tags import known_size_tag
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import wait_until
from tests.kernel.capture import Capture
from tests.kernel.conftest import V4, Pair
from tests.kernel.lab import Namespace
from tests.kit.pages import DOCS, ROOT, of_order, outputs

PAGE = DOCS / "tutorials" / "deadlines.md"
RUNS = [block for block in of_order(PAGE, "run") if not block.argument]
[RECEIVER] = [block for block in of_order(PAGE, "run") if block.argument == "background"]


@pytest.fixture
def reader(served: Namespace) -> Iterator[Namespace]:
    """The network namespace in which the reader of the page works. The receiver runs there."""
    missing = [program for program in ("cc", "socat", "ss") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    with served:
        receiver = spawn(["bash", "-c", f"exec {RECEIVER.text}"])
        wait_until(lambda: ":5000" in served.run("ss", "-Hltn"), "the receiver listens")
        yield served
    stop(receiver)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that looks like that of the repository, but keeps what the commands write."""
    for name in ("dataplane", "hostagent", "policy", "runtime"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def test_every_run_prints_what_the_page_shows(hook: Attachment, reader: Namespace, folder: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(folder)}
    assert outputs(PAGE)
    for block in RUNS:
        done = subprocess.run(
            ["bash", "-e", "-c", block.text], cwd=folder, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        for line in outputs(PAGE).get(block.line, []):
            assert line in done.stdout.splitlines()


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
