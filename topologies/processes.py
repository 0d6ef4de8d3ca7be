# SPDX-License-Identifier: Apache-2.0
"""Ids of a testbed's processes, across PID namespaces."""

from collections.abc import Iterator
from pathlib import Path


def children(pid: int) -> list[int]:
    return [int(process.name) for process, status in _statuses() if f"\nPPid:\t{pid}\n" in status]


def translate(init_pid: int, inner_pids: set[int]) -> dict[int, int]:
    """Return process ids inside the PID namespace of `init_pid` → process ids here."""
    space = _namespace(Path(f"/proc/{init_pid}"))
    pids = {}
    for process, status in _statuses():
        ids = status.partition("\nNSpid:")[2].partition("\n")[0].split()
        if len(ids) > 1 and int(ids[-1]) in inner_pids and space and _namespace(process) == space:
            pids[int(ids[-1])] = int(process.name)
    return pids


def _statuses() -> Iterator[tuple[Path, str]]:
    """Yield the folder and the status of each process that this /proc shows."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            status = (process / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process has just ended
        yield process, status


def _namespace(process: Path) -> Path | None:
    """Return the PID namespace of a process, None if the process is gone or protected."""
    try:
        return (process / "ns/pid").readlink()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
