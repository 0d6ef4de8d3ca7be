# SPDX-License-Identifier: Apache-2.0
"""Doctor, kernel tests, and a scenario on each datapath under Debian's kernels. `make test-kernels` runs them.

The stages of a kernel share a guest. `make test-kernels ARGS='-k "[6.1-doctor]"'` runs one stage of one kernel.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.kernels.stages import SKIPPED, STAGES, script, skips
from tools.guests.kernels import CACHE
from tools.guests.machine import GuestFailed
from tools.guests.session import run_in_guest

GUEST_S = 5400
pytestmark = pytest.mark.timeout(GUEST_S + 60)


@pytest.fixture(scope="session")
def results(series: str, request: pytest.FixtureRequest) -> Path:
    """The folder with what the selected stages wrote in a guest of this series."""
    folder = CACHE / f"results-{series}"
    for old in folder.glob("*"):
        old.unlink()
    chosen = selected(request.session.items, series)
    with suppress(GuestFailed):  # the stages that ended before are judged all the same
        run_in_guest(series, ["bash", "-c", script(folder, chosen)], folder, timeout_s=GUEST_S)
    return folder


def selected(items: Iterable[pytest.Item], series: str) -> list[str]:
    """Return the stages of a series that this run of pytest contains."""
    functions = (item for item in items if isinstance(item, pytest.Function) and hasattr(item, "callspec"))
    chosen = [function.callspec.params for function in functions]
    return [str(one["stage"]) for one in chosen if one.get("series") == series and "stage" in one]


@pytest.mark.parametrize("stage", STAGES)
def test_stage(results: Path, series: str, stage: str) -> None:
    code, output = results / f"{stage}.code", results / f"{stage}.out"
    assert code.exists(), f"the guest ended before the end of this stage: see {results}"
    text = output.read_text()
    assert int(code.read_text()) == 0, text[-8000:]
    for line in skips(text):
        warnings.warn(f"Linux {series}, stage {stage}: {line}", stacklevel=1)


@pytest.mark.parametrize("file", SKIPPED)
def test_of_the_kernel_tier(file: str) -> None:
    pytest.skip(f"tests/kernel/{file} does not run under emulation: {SKIPPED[file]}")
