# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests that run the controller as a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.controller.processes import Process, Starter, controller_process


@pytest.fixture
def live() -> Iterator[Starter]:
    starter = Starter()
    yield starter
    for peer in starter.started:
        peer.stop()


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Process]:
    with controller_process(tmp_path) as process:
        yield process
