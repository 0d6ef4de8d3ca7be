# SPDX-License-Identifier: Apache-2.0
"""Runs switches and hosts of an emulated network before ordinary processes, by what this place allows.

Real time (SCHED_RR) comes first. A container often has none: where the kernel has real-time groups, a group without
a budget of its own (cpu.rt_runtime_us) may not use it. Then a nice value raises the process above the others of its
group. Processes of the root group are also grouped by session, so the session gets the same value.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

SWITCH_NICE, HOST_NICE = -20, -15
_SESSION = Path("/proc/self/autogroup")
_NICE_SESSION = 'echo "$0" 2> /dev/null > /proc/self/autogroup; exec nice -n "$0" "$@"'


class Priority(StrEnum):
    """What runs a process before others. The text completes "runs"."""

    REALTIME = "in real time (SCHED_RR)"
    NICE = "by a nice value, because real time is not allowed here"
    ORDINARY = "as an ordinary process, because neither real time nor a nice value is allowed here"


def allowed() -> Priority:
    """Return the best priority that this process may take. Its own stays as it is."""
    scheduler, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    taken = _take(SWITCH_NICE)
    if taken is Priority.REALTIME:
        os.sched_setscheduler(0, scheduler, parameters)
    if taken is Priority.NICE:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    return taken


def take(nice: int) -> Priority:
    """Raise the calling thread as far as it may be raised; `nice` is the value where real time is not allowed.

    Call it in a process that leads a session of its own.
    """
    taken = _take(nice)
    if taken is Priority.NICE:
        with suppress(OSError):  # a kernel without groups by session
            _SESSION.write_text(str(nice))
    return taken


def _take(nice: int) -> Priority:
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        return Priority.REALTIME
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, nice)
        return Priority.NICE
    return Priority.ORDINARY


def raised(argv: Sequence[str], priority: Priority, nice: int) -> list[str]:
    """Return the command that runs `argv`, the first process of its session, with a priority."""
    if priority is Priority.REALTIME:
        return ["chrt", "--rr", "1", *argv]
    if priority is Priority.NICE:
        return ["sh", "-c", _NICE_SESSION, str(nice), *argv]
    return list(argv)
