# SPDX-License-Identifier: Apache-2.0
"""What /proc says: the identity of a process, by which others see whether it still runs, and how busy cores are."""

import os
from pathlib import Path
from typing import NamedTuple

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot() -> str:
    """Return the identity of this machine's boot. All containers of a machine have the same."""
    return _BOOT_ID.read_text().strip()


def my_identity() -> str:
    """Return boot, PID namespace, process id and start time of this process. No other process has the same."""
    return "/".join((*_machine(), str(os.getpid()), started(os.getpid()) or "?"))


def has_ended(identity: str) -> bool:
    """Return true if the process is certainly gone, false if it runs or this process cannot know."""
    match identity.split("/"):
        case [boot, namespace, pid, start] if (boot, namespace) == _machine() and pid.isdigit():
            return started(int(pid)) != start
        case _:
            return False


def _machine() -> tuple[str, str]:
    """Return boot and PID namespace. If /proc shows another namespace than this process's own, the second is unique."""
    its_own = str(Path("/proc/self").readlink()) == str(os.getpid())
    namespace = str(Path("/proc/self/ns/pid").stat().st_ino) if its_own else f"unseen-{os.urandom(4).hex()}"
    return boot(), namespace


def started(pid: int) -> str | None:
    """Return the start of a process in clock ticks since boot, None if it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]


class Ticks(NamedTuple):
    """Time of all cores together since boot, in clock ticks."""

    busy: int
    total: int


def machine_ticks() -> Ticks:
    """Return the busy ticks and all ticks of all cores.

    Time that a hypervisor took counts as busy, because the run could not use it. Time of processes
    with a lower priority ("nice") does not, because the run could have used it.
    """
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    _, nice, _, idle, waiting, *_ = ticks
    return Ticks(sum(ticks) - idle - waiting - nice, sum(ticks))
