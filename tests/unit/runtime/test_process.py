# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.runtime.process import spawn
from sluice.runtime.wait import wait_until


@pytest.fixture
def ignored_interrupt() -> Iterator[None]:
    """This process ignores SIGINT, as a background job of a shell does."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ignored_interrupt")
def test_spawn__a_child_of_a_background_job_ends_at_an_interrupt(tmp_path: Path) -> None:
    process = spawn([sys.executable, "-c", "import time; time.sleep(600)"], log_file=tmp_path / "log")
    process.send_signal(signal.SIGINT)
    wait_until(lambda: process.poll() is not None, "it has ended")
