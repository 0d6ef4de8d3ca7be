# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition."""

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


INTERVAL_S, LONGEST_INTERVAL_S, PART_OF_WAIT = 0.02, 0.5, 0.05
"""Between two polls: the shortest and the longest time, and the part of the time waited so far."""


def wait_until(
    condition: Callable[[], T | None],
    what: str,
    *,
    timeout_s: float = 300.0,
    interval_s: float | None = None,
) -> T:
    """Poll `condition` until it is true and return its value. Raises TimeoutError with `what` after `timeout_s`.

    Without `interval_s`, the polls become rarer the longer it waits.
    """
    timeout_s = patient(timeout_s)
    began = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited_s = time.monotonic() - began
        if waited_s > timeout_s:
            raise TimeoutError(f"not within {timeout_s:.0f} s: {what}")
        time.sleep(interval_s or min(max(INTERVAL_S, PART_OF_WAIT * waited_s), LONGEST_INTERVAL_S))
