# SPDX-License-Identifier: Apache-2.0
"""Each module can be imported first, although os-ken's modules import each other."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("module", ["connection", "events", "openflow"])
def test_a_module_that_uses_os_ken_can_be_imported_first(module: str) -> None:
    program = [sys.executable, "-c", f"import sluice.controller.{module}"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
