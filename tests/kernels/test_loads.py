# SPDX-License-Identifier: Apache-2.0
"""Debian's kernels load every BPF program, register every congestion control, and keep nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataplane import build
from dataplane.congestion import ours
from tools.guests.loads import loads


@pytest.mark.timeout(600)
def test_every_program_loads_and_leaves_nothing(series: str, tmp_path: Path) -> None:
    found = loads(series, tmp_path)
    assert found.release is not None, f"the guest did not reach its end:\n{found.console[-4000:]}"
    assert found.release.startswith(f"{series}.")
    expected = {(step, name) for step in ("load", "unload") for name in build.names()}
    expected |= {("register", name.replace("sluice_", "cc_")) for name in ours()} | {("nothing", "left")}
    assert set(found.codes) == expected
    failed = [f"{step} {name}" for (step, name), code in found.codes.items() if code]
    assert not failed, f"{', '.join(failed)} failed:\n{found.console[-8000:]}"
