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
    *machine, pid, started = identity.split("/")
    if tuple(machine) != _machine() or not pid.isdigit():
        return False
    return _started(int(pid)) != started


def _machine() -> tuple[str, str]:
    return _BOOT_ID.read_text().strip(), str(Path("/proc/self/ns/pid").stat().st_ino)


def _started(pid: int) -> str | None:
    """Start of a process in clock ticks since boot; None when there is none, or only its remains."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]
