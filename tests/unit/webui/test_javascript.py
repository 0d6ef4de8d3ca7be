# SPDX-License-Identifier: Apache-2.0
"""The dashboard's modules without DOM, tested in node."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

TESTS = sorted((Path(__file__).parent / "javascript").glob("*.test.mjs"))
MODULES = Path(__file__).parents[3] / "webui/static/js/pure"
NODE = shutil.which("node") or ""


@pytest.mark.skipif(not NODE, reason="node is missing; on Debian: apt-get install nodejs")
@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name.removesuffix(".test.mjs"))
def test_pure_module(path: Path) -> None:
    done = subprocess.run([NODE, path], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\S tests [1-9]", done.stdout, re.MULTILINE), done.stdout


def test_every_pure_module_has_a_test() -> None:
    assert {path.name.removesuffix(".test.mjs") for path in TESTS} == {
        path.stem for path in MODULES.iterdir()
    }
