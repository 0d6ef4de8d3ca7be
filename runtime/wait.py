# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = "SLUICE_PATIENCE"
"""Environment variable: the factor of every timeout, for a machine that is many times slower than others."""


def patient(timeout_s: float) -> float:
    """Return a timeout that suits this machine."""
    return timeout_s * float(os.environ.get(PATIENCE) or 1)


def wait_until(
    condition: Callable[[], T | None], what: str, *, timeout_s: float = 300.0, interval_s: float = 0.02
) -> T:
    """Poll `condition` until it is true and return its value. Raises TimeoutError with `what` after `timeout_s`."""
    timeout_s = patient(timeout_s)
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s:.0f} s: {what}")
        time.sleep(interval_s)
