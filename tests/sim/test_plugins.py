# SPDX-License-Identifier: Apache-2.0
"""The page about parts from outside the tree, carried out on the simulator."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.pages import DOCS, of_order

PAGE = DOCS / "how-to" / "plugins.md"

pytestmark = [pytest.mark.sim, pytest.mark.slow]


def test_the_commands_of_the_page_run_and_use_the_parts(tmp_path: Path) -> None:
    for block in of_order(PAGE, "save"):
        (tmp_path / block.argument).write_text(block.text)
    [commands] = of_order(PAGE, "run")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands.text],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    mine = json.loads((tmp_path / "results" / "mine" / "summary.json").read_text())
    assert mine["unfinished"] == 0
    meta = json.loads((tmp_path / "results" / "mine" / "meta.json").read_text())
    digest = hashlib.sha256((tmp_path / "my_scheme.py").read_bytes()).hexdigest()
    assert meta["plugins"] == {str(tmp_path / "my_scheme.py"): digest}
    assert mine["fct_us"]["all"]["n"] == 60
    assert (tmp_path / "results" / "my-ring" / "summary.json").exists()
    assert "my-scheme" in (tmp_path / "mine.html").read_text()
