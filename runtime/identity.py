# SPDX-License-Identifier: Apache-2.0
"""Who a process is, so that another one of the same machine can tell later whether it is still there."""

from __future__ import annotations

import os
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def my_identity() -> str:
    """Boot, PID namespace, process id and time of its start: never the same twice."""
    return "/".join((*_machine(), str(os.getpid()), _started(os.getpid()) or "?"))


def has_ended(identity: str) -> bool:
    """True when that process is certainly gone; false also when this cannot be known from here."""
    match identity.split("/"):
        case [boot, namespace, pid, started] if (boot, namespace) == _machine() and pid.isdigit():
            return _started(int(pid)) != started
        case _:
            return False


def _machine() -> tuple[str, str]:
    """Boot and PID namespace; of a process whose /proc shows another namespace than its own, one that nobody shares."""
    its_own = str(Path("/proc/self").readlink()) == str(os.getpid())
    namespace = str(Path("/proc/self/ns/pid").stat().st_ino) if its_own else f"unseen-{os.urandom(4).hex()}"
    return _BOOT_ID.read_text().strip(), namespace


def _started(pid: int) -> str | None:
    """Start of a process in clock ticks since boot; None when there is none, or only its remains."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]
