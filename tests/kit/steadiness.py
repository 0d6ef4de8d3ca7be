# SPDX-License-Identifier: Apache-2.0
"""Measures whether the machine stalled during a test. A test that judges times is skipped only by this measurement.

    @pytest.mark.timing(stall_ms=50)

Such a test may fail because a virtual machine or a busy CPU delayed every process for longer than that. Then pytest
skips it with the longest stall as the reason. If the machine was steady, the failure counts.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

from runtime.process import die_with_parent

_LOOK_S = 0.002
_LONGEST = struct.Struct("d")


class Steadiness:
    """How late a process wakes up that only sleeps."""

    def __init__(self, shared: mmap.mmap) -> None:
        self._shared = shared

    @property
    def longest_stall_s(self) -> float:
        """The longest delay so far."""
        longest: float = _LONGEST.unpack_from(self._shared)[0]
        return longest


@contextmanager
def watched_machine() -> Iterator[Steadiness]:
    """Watch the machine from a separate process, because threads of the test would delay one in its own process."""
    with mmap.mmap(-1, _LONGEST.size) as shared:
        pid = os.fork()
        if pid == 0:
            _watch(shared)
        try:
            yield Steadiness(shared)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _watch(shared: mmap.mmap) -> None:
    die_with_parent()
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # a connection that a test closes must end
    longest_s, before_s = 0.0, time.monotonic()
    while True:
        time.sleep(_LOOK_S)
        now_s = time.monotonic()
        longest_s = max(longest_s, now_s - before_s - _LOOK_S)
        before_s = now_s
        _LONGEST.pack_into(shared, 0, longest_s)
