# SPDX-License-Identifier: Apache-2.0
"""The code blocks of the pages do what the pages say. tests/kernel/test_tutorial.py has those that need root."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sluice import cli
from sluice.policy.schemes import Scheme, table
from sluice.policy.workload.sizes import parse_cdf
from sluice.simulator.build import build
from tests.kit.pages import DOCS, ROOT, Block, of_order, outputs, save_files

pytestmark = pytest.mark.slow

QUICKSTART = DOCS / "tutorials" / "quickstart.md"
QUOTING = sorted(page for page in DOCS.rglob("*.md") if of_order(page, "from"))
WITH_SYNTAX = sorted(page for page in DOCS.rglob("*.md") if of_order(page, "syntax"))


@pytest.fixture(scope="module", autouse=True)
def core() -> None:
    """The simulator's core, built before the first run."""
    build()


def shell(script: str, folder: Path) -> str:
    """Run a block as its reader does who has activated .venv. Returns what it prints."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-e", "-c", script], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def printed_lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


@pytest.mark.parametrize("block", of_order(QUICKSTART, "run"), ids=lambda block: f"line-{block.line}")
def test_quickstart__every_run_prints_what_the_page_shows(block: Block, tmp_path: Path) -> None:
    """Where the page shows nothing, the options of each command are read, and nothing runs."""
    shown = outputs(QUICKSTART).get(block.line, [])
    if shown:
        save_files(QUICKSTART, tmp_path)
        assert set(shown) <= set(printed_lines(shell(block.text, tmp_path)))
    for line in [] if shown else block.text.splitlines():
        sluice, command, *words = shlex.split(line)
        assert sluice == "sluice"
        cli.command(command)[0].parse_args(words)


@pytest.mark.parametrize("page", QUOTING, ids=lambda page: page.name)
def test_a_quoted_part_is_in_its_file(page: Path) -> None:
    for block in of_order(page, "from"):
        source = (ROOT / block.argument).read_text()
        first = block.text.splitlines()[0]
        indent = next(line for line in source.splitlines() if line.strip() == first).partition(first)[0]
        assert "".join(f"{indent}{line}\n" for line in block.text.splitlines()) in source


@pytest.mark.parametrize("page", WITH_SYNTAX, ids=lambda page: page.name)
def test_statements_in_c_compile(page: Path, tmp_path: Path) -> None:
    for block in of_order(page, "syntax"):
        body = f"#include <sys/socket.h>\n#include <sluice.h>\nvoid declare(int fd)\n{{\n{block.text}}}\n"
        (tmp_path / "block.c").write_text(body)
        include = f"-I{ROOT / 'dataplane' / 'include'}"
        subprocess.run(["cc", "-Wall", "-Werror", "-fsyntax-only", include, tmp_path / "block.c"], check=True)


def test_add_a_scheme__the_example_is_a_scheme() -> None:
    [block] = of_order(DOCS / "how-to" / "add-a-scheme.md", "save")
    names: dict[str, object] = dict(vars(table))
    exec(block.text, names)
    scheme = names["MY_PIAS"]
    assert isinstance(scheme, Scheme)
    assert scheme.queue_rule.demotions(scheme.queues) == len(scheme.thresholds_bytes)


def test_add_other_parts__the_example_is_a_distribution() -> None:
    [block] = of_order(DOCS / "how-to" / "add-other-parts.md", "save")
    assert parse_cdf(block.argument, block.text).mean_bytes == pytest.approx(0.5 * 10_000 + 0.5 * 505_000)
