# SPDX-License-Identifier: Apache-2.0
"""The programs that pages show, as a reader runs them."""

import ctypes
import http.client
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.dataplane import build
from sluice.dataplane.loader import Map
from sluice.dataplane.sockopt import Attachment
from sluice.dataplane.tagger import Tagger, TagSettings
from sluice.dataplane.watch import Watch
from sluice.hostagent.sockets import declared
from sluice.hostagent.sockets.flow import FLOW
from sluice.hostagent.sockets.options import STATE
from sluice.policy.tags import known_size_tag
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import wait_until
from tests.kernel.capture import Capture
from tests.kernel.conftest import V4, Pair
from tests.kernel.controls import reading
from tests.kernel.lab import Namespace, collected, listen
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
        found = collected(watch.ended, len(PATHS), "a flow for each answer")
    finally:
        stop(process)
    allowed = [(flow.declared_deadline_ns or 0) - (flow.declared_start_ns or 0) for flow in found]
    assert allowed == [milliseconds * 10**6 for milliseconds in PATHS.values()]


# -- the examples of hostagent/ and the programs in their README


SIZE, DEADLINE_MS = 2_000_000, 30_000
PIDFD_GETFD = 438
"""The number of this system call."""


def run_example(pair: Pair, argv: list[str]) -> tuple[int, str, int]:
    """Return exit code, output, and the bytes that arrived."""
    with listen(pair.b, V4["b"]) as listener:
        host, port = listener.getsockname()
        arguments = [host, str(port), str(SIZE), str(DEADLINE_MS)]
        with pair.a:
            child = subprocess.Popen(
                [*argv, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        server, _ = listener.accept()
    with server, reading(server) as counts:
        output, _ = child.communicate(timeout=300)
    return child.returncode, output, counts[0]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    compiler = shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs a C compiler")
    program = tmp_path_factory.mktemp("example") / "deadline"
    flags = ["-Wall", "-Wextra", "-Werror", f"-I{build.INCLUDE}"]
    subprocess.run([compiler, *flags, "-o", str(program), str(EXAMPLES / "deadline.c")], check=True)
    return [str(program)]


@pytest.fixture(scope="module")
def compiled_go(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    if shutil.which("go") is None:
        pytest.skip("needs Go: apt-get install golang-go")
    program = tmp_path_factory.mktemp("example") / "deadline"
    env = {
        "GOCACHE": str(Path.home() / ".cache/go-build"),
        **os.environ,
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
    }
    subprocess.run(["go", "build", "-o", str(program), str(EXAMPLES / "deadline.go")], env=env, check=True)
    return [str(program)]


@pytest.fixture(params=["c", "go", "python"])
def example(request: pytest.FixtureRequest) -> tuple[str, list[str]]:
    """A language, and the command of the example in it."""
    match request.param:
        case "c":
            return "c", list(request.getfixturevalue("compiled"))
        case "go":
            return "go", list(request.getfixturevalue("compiled_go"))
    return "python", [sys.executable, str(EXAMPLES / "deadline.py")]


REPORTS = {"c": "acknowledged, done", "python": "acknowledged, done", "go": "sent"}


def test_example__sends_and_reports(flows: Map, pair: Pair, example: tuple[str, list[str]]) -> None:
    language, argv = example
    code, output, arrived = run_example(pair, argv)
    assert (code, output) == (0, f"{SIZE} bytes {REPORTS[language]}\n")
    assert arrived == SIZE


REFUSALS = {
    "c": "Invalid argument",
    "python": "deadline_s: must be in the future",
    "go": "setsockopt SLUICE_FLOW: invalid argument",
}


def test_example__names_the_wrong_field(flows: Map, pair: Pair, example: tuple[str, list[str]]) -> None:
    language, argv = example
    with listen(pair.b, V4["b"]) as listener, pair.a:
        host, port = listener.getsockname()
        done = subprocess.run(
            [*argv, host, str(port), "1000", "-5"], capture_output=True, text=True, check=False
        )
    assert done.returncode == 1
    assert REFUSALS[language] in done.stderr


def connection_of(pid: int) -> socket.socket:
    """Return a duplicate of the connected socket of another process."""
    libc, pidfd = ctypes.CDLL(None, use_errno=True), os.pidfd_open(pid)
    try:
        links = Path(f"/proc/{pid}/fd")
        sockets = [int(path.name) for path in links.iterdir() if str(path.readlink()).startswith("socket:")]
        [ours] = [libc.syscall(PIDFD_GETFD, pidfd, number, 0) for number in sockets]
        return socket.socket(fileno=ours)
    finally:
        os.close(pidfd)


def test_example__the_kernel_has_size_and_deadline(
    flows: Map, pair: Pair, example: tuple[str, list[str]]
) -> None:
    """The receiver does not read, so the write blocks while the kernel is asked."""
    size_bytes, deadline_s = 50_000_000, 300
    with listen(pair.b, V4["b"]) as listener:
        host, port = listener.getsockname()
        with pair.a:
            child = subprocess.Popen([*example[1], host, str(port), str(size_bytes), str(1000 * deadline_s)])
        server, _ = listener.accept()
        with server, connection_of(child.pid) as sender:
            wait_until(lambda: flows.lookup(sender.fileno()), "the flow is declared")
            flow = declared(sender)
            child.kill()
            child.wait()
    assert flow.size_bytes == size_bytes
    assert flow.deadline_s is not None
    assert deadline_s - 60 < flow.deadline_s <= deadline_s


def code_blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (EXAMPLES / "README.md").read_text(), re.DOTALL)


def test_readme__the_python_without_this_project_works(flows: Map, pair: Pair) -> None:
    [code] = code_blocks("python")
    with listen(pair.b, V4["b"]) as listener, pair.a:
        host, port = listener.getsockname()
        subprocess.run(["/usr/bin/python3", "-c", code, host, str(port)], check=True)


def test_readme__has_the_layouts(tmp_path: Path) -> None:
    """The tables have the compiler's offsets and sizes, and those of the Python API."""
    text = (EXAMPLES / "README.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (\d+) \| `(\w+)` \|", text, re.MULTILINE)
    flow, told_state = rows[:8], rows[8:]
    source = ['#include <stddef.h>\n#include <stdio.h>\n#include "sluice.h"\nint main(void){']
    for name, fields in (("sluice_flow", flow), ("sluice_state", told_state)):
        source += [
            f'printf("%zu %zu\\n",offsetof(struct {name},{f}),sizeof(((struct {name}*)0)->{f}));'
            for _, _, f in fields
        ]
        source.append(f'printf("%zu\\n",sizeof(struct {name}));')
    (tmp_path / "layout.c").write_text("".join(source) + "return 0;}")
    compiler = shutil.which("cc") or shutil.which("clang") or "cc"
    subprocess.run([compiler, f"-I{build.INCLUDE}", "layout.c", "-o", "layout"], cwd=tmp_path, check=True)
    output = subprocess.run(
        [tmp_path / "layout"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    expected = [f"{o} {s}" for o, s, _ in flow] + [str(FLOW.size)]
    expected += [f"{o} {s}" for o, s, _ in told_state] + [str(STATE.size)]
    assert output == expected
