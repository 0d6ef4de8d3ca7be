# SPDX-License-Identifier: Apache-2.0
"""Doctor, kernel tests, and a scenario on each datapath under Debian's kernels. `make test-kernels` runs them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from tests.kernels.stages import SKIPPED, STAGES, script
from tools.guests.kernels import CACHE
from tools.guests.machine import GuestFailed
from tools.guests.session import run_in_guest

GUEST_S = 5400
pytestmark = pytest.mark.timeout(GUEST_S + 60)


@pytest.fixture(scope="session")
def results(series: str) -> Path:
    """The folder with what every stage wrote in a guest of this series."""
    folder = CACHE / f"results-{series}"
    for old in folder.glob("*"):
        old.unlink()
    with suppress(GuestFailed):  # the stages that ended before are judged all the same
        run_in_guest(series, ["bash", "-c", script(folder)], folder, timeout_s=GUEST_S)
    return folder


@pytest.mark.parametrize("stage", STAGES)
def test_stage(results: Path, stage: str) -> None:
    code, output = results / f"{stage}.code", results / f"{stage}.out"
    assert code.exists(), "the guest ended before this stage"
    assert int(code.read_text()) == 0, output.read_text()[-8000:]


@pytest.mark.parametrize("file", SKIPPED)
def test_of_the_kernel_tier(file: str) -> None:
    pytest.skip(f"tests/kernel/{file} does not run under emulation: {SKIPPED[file]}")
