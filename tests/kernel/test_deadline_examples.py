# SPDX-License-Identifier: Apache-2.0
"""The examples of hostagent/ and the programs in its README send and report on real connections."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dataplane import build
from dataplane.loader import Map
from hostagent.sockets import (
    FLOW,
    STATE,
)
from tests.kernel.conftest import V4, Pair
from tests.kernel.lab import listen
from tests.kernel.sending import reading

EXAMPLES = Path(__file__).parents[2] / "hostagent" / "examples"


# -- the examples and their README

SIZE, DEADLINE_MS = 2_000_000, 30_000


def run_example(pair: Pair, argv: list[str], flows: Map, *, sized: bool = True) -> tuple[int, str, int]:
    """Return exit code, output, and the bytes that arrived."""
    with listen(pair.b, socket.AF_INET, V4["b"]) as listener:
        host, port = listener.getsockname()
        arguments = [host, str(port), str(SIZE), str(DEADLINE_MS)] if sized else [f"{host}:{port}"]
        with pair.a:
            child = subprocess.Popen(
                [*argv, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        server, _ = listener.accept()
    with server, reading(server) as counts:
        output, _ = child.communicate(timeout=60)
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


@pytest.mark.parametrize("language", ["c", "python"])
def test_example__sends_and_reports(flows: Map, pair: Pair, compiled: list[str], language: str) -> None:
    argv = compiled if language == "c" else [sys.executable, str(EXAMPLES / "deadline.py")]
    code, output, arrived = run_example(pair, argv, flows)
    assert (code, output) == (0, f"{SIZE} bytes acknowledged, done\n")
    assert arrived == SIZE


@pytest.mark.parametrize("language", ["c", "python"])
def test_example__names_the_wrong_field(flows: Map, pair: Pair, compiled: list[str], language: str) -> None:
    argv = compiled if language == "c" else [sys.executable, str(EXAMPLES / "deadline.py")]
    with listen(pair.b, socket.AF_INET, V4["b"]) as listener, pair.a:
        host, port = listener.getsockname()
        done = subprocess.run(
            [*argv, host, str(port), "1000", "-5"], capture_output=True, text=True, check=False
        )
    assert done.returncode == 1
    assert (
        "Invalid argument" in done.stderr
        if language == "c"
        else "deadline_s: must be in the future" in done.stderr
    )


def code_blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (EXAMPLES / "README.md").read_text(), re.DOTALL)


def test_readme__the_python_without_this_project_works(flows: Map, pair: Pair) -> None:
    [code] = code_blocks("python")
    with listen(pair.b, socket.AF_INET, V4["b"]) as listener, pair.a:
        host, port = listener.getsockname()
        subprocess.run(["/usr/bin/python3", "-c", code, host, str(port)], check=True)


def test_readme__the_go_program_works(flows: Map, pair: Pair, tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("needs Go")
    [code] = code_blocks("go")
    (tmp_path / "main.go").write_text(code)
    subprocess.run(["go", "build", "-o", "tell", "main.go"], cwd=tmp_path, check=True)
    code_, output, arrived = run_example(pair, [str(tmp_path / "tell")], flows, sized=False)
    assert (code_, output, arrived) == (0, "", 20_000)


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
