# SPDX-License-Identifier: Apache-2.0
"""Long-running child processes that never outlive their parent, and processes that run before ordinary ones.

The logs of children are kept short: they are opened for appending, so they can be cut while a process writes.

Switches and hosts of an emulated network run before ordinary processes, by what this place allows. Real time (SCHED_RR)
comes first. A container often has none: where the kernel has real-time groups, a group without a budget of its own
(cpu.rt_runtime_us) may not use it. Then a nice value raises the process above the others of its group. Processes of the
root group are also grouped by session, so the session gets the same value.
"""

import ctypes
import logging
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import IO
from weakref import WeakSet

from sluice.runtime.identity import started

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
_DEFAULTS = {"OPENBLAS_NUM_THREADS": "1"}
"""numpy would start a thread for each processor, which spins for a while. No process here multiplies matrices."""
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Make the kernel kill this process when the thread that started it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def obey_parent() -> None:
    """Make this process die with its parent, and end at the SIGINT that the parent sends it.

    A shell's background jobs ignore SIGINT, and their children would ignore it, too.
    """
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def spawn(
    argv: Sequence[str],
    *,
    log_file: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[bytes] | None = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start a process in its own session, so that Ctrl-C reaches only the parent, which then stops it in order.

    The kernel kills the process when the thread that started it ends, so a killed parent leaves nothing behind. Call
    this from a thread that lives as long as the child. The child inherits the output, or appends to `log_file`.
    """
    log.debug("$ %s &", shlex.join(argv))
    out = _opened(log_file) if log_file else None
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=stdin,
            stdout=out,
            stderr=subprocess.STDOUT if out else None,
            env={**_DEFAULTS, **os.environ, **(env or {})},
            start_new_session=True,
            preexec_fn=obey_parent,
        )
        _spawned.add(process)
        return process
    finally:
        if out:
            out.close()


_spawned: WeakSet[subprocess.Popen[bytes]] = WeakSet()
_seen_dead: set[int] = set()


def reap_orphans() -> None:
    """Collect children that this process did not start, because it is process 1 of a container or a namespace.

    A process that was dead at the call before, too, is certainly not one that another part of the program waits for.
    """
    if os.getpid() != 1:
        return
    ours = {process.pid for process in _spawned}
    tasks = Path("/proc/self/task").glob("*/children")
    children = [int(pid) for task in tasks for pid in task.read_text().split()]
    dead = {pid for pid in children if started(pid) is None} - ours
    for pid in dead & _seen_dead:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    _seen_dead.clear()
    _seen_dead.update(dead)


def _opened(log_file: Path) -> IO[bytes] | None:
    """Return the open log; None if the disk has no room for it, because a process matters more than its log."""
    try:
        return log_file.open("ab")
    except OSError as error:
        log.warning("no log of a process: %s", error)
        return None


def stop(process: subprocess.Popen[bytes], *, grace_s: float = 5.0) -> int:
    """End a child: SIGTERM, then SIGKILL if it still runs after `grace_s`. Returns its exit code."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            log.warning("process %d ignored SIGTERM for %.0f s: killed", process.pid, grace_s)
            process.kill()
            process.wait()
    return process.returncode


MOST_BYTES = 16 * 1024 * 1024


def keep_short(folder: Path, most_bytes: int = MOST_BYTES) -> None:
    """Cut every log of a folder that is longer than this. NAME.log.1 has its content so far, and no older one.

    Lines that a process writes in this moment may be lost. A disk without room loses the old content, not the new.
    """
    for path in folder.glob("*.log"):
        try:
            if path.stat().st_size <= most_bytes:
                continue
            before = path.with_name(f"{path.name}.1")
            try:
                shutil.copyfile(path, before)
            except OSError:
                before.unlink(missing_ok=True)
            os.truncate(path, 0)
        except OSError as error:
            log.warning("cannot shorten %s: %s", path, error.strerror)


SWITCH_NICE, HOST_NICE = -20, -15
_SESSION = Path("/proc/self/autogroup")
_NICE_SESSION = 'echo "$0" 2> /dev/null > /proc/self/autogroup; exec nice -n "$0" "$@"'


class Priority(StrEnum):
    """What runs a process before others. The text completes "runs"."""

    REALTIME = "in real time (SCHED_RR)"
    NICE = "by a nice value, because real time is not allowed here"
    ORDINARY = "as an ordinary process, because neither real time nor a nice value is allowed here"


def allowed_priority() -> Priority:
    """Return the best priority that this process may take. Its own stays as it is."""
    scheduler, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    taken = _take(SWITCH_NICE)
    if taken is Priority.REALTIME:
        os.sched_setscheduler(0, scheduler, parameters)
    if taken is Priority.NICE:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    return taken


def take_priority(nice: int) -> Priority:
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
