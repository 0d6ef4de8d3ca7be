# SPDX-License-Identifier: Apache-2.0
"""Clocks for tests that judge the age of what they have just written."""

import itertools
import time

import pytest

from sluice.store import ages


def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Move the wall clock and the store's clock only when they are read, by 10 µs: a test may stand still for seconds,
    and its agents would be late."""
    for module, name in ((time, "time"), (ages, "boottime_s")):
        began, reads = getattr(module, name)(), itertools.count()
        monkeypatch.setattr(module, name, lambda began=began, reads=reads: began + next(reads) * 1e-5)
