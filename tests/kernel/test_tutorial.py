# SPDX-License-Identifier: Apache-2.0
"""The commands of the tutorial on deadlines, with the hook of an agent attached."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.dataplane.sockopt import Attachment
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import wait_until
from tests.kernel.lab import Namespace
from tests.kit.pages import DOCS, ROOT, of_order, outputs

PAGE = DOCS / "tutorials" / "deadlines.md"
RUNS = [block for block in of_order(PAGE, "run") if not block.argument]
[RECEIVER] = [block for block in of_order(PAGE, "run") if block.argument == "background"]


@pytest.fixture
def reader(namespaces: list[Namespace]) -> Iterator[Namespace]:
    """The network namespace in which the reader of the page works. The receiver runs there."""
    missing = [program for program in ("cc", "socat", "ss") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    own = Namespace()
    namespaces.append(own)
    with own:
        receiver = spawn(["bash", "-c", f"exec {RECEIVER.text}"])
        wait_until(lambda: ":5000" in own.run("ss", "-Hltn"), "the receiver listens")
        yield own
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
