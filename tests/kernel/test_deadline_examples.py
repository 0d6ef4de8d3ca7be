# SPDX-License-Identifier: Apache-2.0
"""The examples of hostagent/ and the programs in its README send and report on real connections."""

import ctypes
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.dataplane import build
from sluice.dataplane.loader import Map
from sluice.hostagent.sockets import declared
from sluice.hostagent.sockets.flow import FLOW
from sluice.hostagent.sockets.options import STATE
from sluice.runtime.wait import wait_until
from tests.kernel.conftest import V4, Pair
from tests.kernel.controls import reading
from tests.kernel.lab import listen

EXAMPLES = Path(__file__).parents[2] / "hostagent" / "examples"


# -- the examples and their README

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
    subprocess.run(["go", "vet", str(EXAMPLES / "deadline.go")], env=env, check=True)
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
