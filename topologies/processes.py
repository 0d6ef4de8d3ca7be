# SPDX-License-Identifier: Apache-2.0
"""Processes of a testbed: their ids across PID namespaces, and whether one lives but does nothing.

Another program asks it a question, and it does not answer.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from sluice.runtime.process import spawn


def process_ids() -> Iterator[int]:
    """Yield the ids of all processes that this /proc shows."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def status_field(pid: int, name: str) -> list[str]:
    """Return the words of a field of /proc/PID/status, none if the process is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return next((line.split()[1:] for line in lines if line.startswith(f"{name}:")), [])


def has_ended(pid: int) -> bool:
    """Return whether a process has ended, even if its parent has not collected it yet."""
    return status_field(pid, "State")[:1] in ([], ["Z"], ["X"])


def namespace(pid: int, kind: str) -> str | None:
    """Return the identity of a process's namespace ("net:[4026531840]"), None if the process is gone or protected."""
    try:
        return str(Path(f"/proc/{pid}/ns/{kind}").readlink())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def children(pid: int) -> list[int]:
    return [child for child in process_ids() if status_field(child, "PPid") == [str(pid)]]


def translate(init_pid: int, inner_pids: set[int]) -> dict[int, int]:
    """Return process ids inside the PID namespace of `init_pid` → process ids here."""
    space = namespace(init_pid, "pid")
    pids = {}
    for pid in process_ids():
        words = status_field(pid, "NSpid")
        if len(words) > 1 and int(words[-1]) in inner_pids and space and namespace(pid, "pid") == space:
            pids[int(words[-1])] = pid
    return pids


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
