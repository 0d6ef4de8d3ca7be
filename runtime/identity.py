# SPDX-License-Identifier: Apache-2.0
"""The identity of a process, by which another process of the same machine can see later whether it still runs."""

from __future__ import annotations

import os
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot() -> str:
    """Return the identity of this machine's boot. All containers of a machine have the same."""
    return _BOOT_ID.read_text().strip()


def my_identity() -> str:
    """Return boot, PID namespace, process id and start time of this process. No other process has the same."""
    return "/".join((*_machine(), str(os.getpid()), _started(os.getpid()) or "?"))


def has_ended(identity: str) -> bool:
    """Return true if the process is certainly gone, false if it runs or this process cannot know."""
    match identity.split("/"):
        case [boot, namespace, pid, started] if (boot, namespace) == _machine() and pid.isdigit():
            return _started(int(pid)) != started
        case _:
            return False


def _machine() -> tuple[str, str]:
    """Return boot and PID namespace. If /proc shows another namespace than this process's own, the second is unique."""
    its_own = str(Path("/proc/self").readlink()) == str(os.getpid())
    namespace = str(Path("/proc/self/ns/pid").stat().st_ino) if its_own else f"unseen-{os.urandom(4).hex()}"
    return boot(), namespace


def _started(pid: int) -> str | None:
    """Return the start of a process in clock ticks since boot, None if it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]
