# SPDX-License-Identifier: Apache-2.0
"""Debian's kernels load every BPF program, register every congestion control, and keep nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.dataplane import build
from sluice.dataplane.congestion import ours
from tools.guests import types
from tools.guests.kernels import SERIES, unpacked
from tools.guests.loads import loads


@pytest.mark.parametrize("series", [SERIES[0]], indirect=True)
def test_every_program_compiles_with_the_kernels_own_types(series: str, tmp_path: Path) -> None:
    types.header(unpacked(series), tmp_path)
    for name in build.names():
        build.check_types(name, tmp_path)


@pytest.mark.timeout(600)
def test_every_program_loads_and_leaves_nothing(series: str, tmp_path: Path) -> None:
    found = loads(series, tmp_path)
    assert found.release is not None, f"the guest did not reach its end:\n{found.console[-4000:]}"
    assert found.release.startswith(f"{series}.")
    controls = {name.replace("sluice_", "cc_") for name in ours()}
    expected = {("load", name) for name in build.names()} | {("nothing", "left")}
    expected |= {(step, name) for step in ("register", "unload") for name in controls}
    assert set(found.codes) == expected
    failed = [f"{step} {name}" for (step, name), code in found.codes.items() if code]
    assert not failed, f"{', '.join(failed)} failed:\n{found.console[-8000:]}"
