# SPDX-License-Identifier: Apache-2.0
"""A wall clock for tests that judge the age of what they have just written."""

import itertools
import time

import pytest


def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Move the wall clock only when it is read, by 10 µs: a test may stand still for seconds, and its
    agents would be late."""
    began, reads = time.time(), itertools.count()
    monkeypatch.setattr(time, "time", lambda: began + next(reads) * 1e-5)
