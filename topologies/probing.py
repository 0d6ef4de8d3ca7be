# SPDX-License-Identifier: Apache-2.0
"""Finds a process that lives but does nothing, by a question that another program asks it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from sluice.runtime.process import spawn

EVERY_S = 3.0


class Probe:
    """Asks a process every EVERY_S, without waiting for the answer.

    SIGALRM ends `argv` if there is none within its limit, as `ovs-appctl --timeout` does. Another failure is no sign,
    because the process may have ended.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = argv
        self._asking: subprocess.Popen[bytes] | None = None
        self._due_s = 0.0

    def hangs(self) -> bool:
        """Return whether the last question had no answer. It is true once for each such question."""
        if self._asking is None:
            if time.monotonic() >= self._due_s:
                self._asking = spawn(self._argv, log_file=Path(os.devnull))
            return False
        code = self._asking.poll()
        if code is None:
            return False
        self._asking, self._due_s = None, time.monotonic() + EVERY_S
        return code == -signal.SIGALRM
