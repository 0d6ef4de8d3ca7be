# SPDX-License-Identifier: Apache-2.0
"""What a run owns on the machine, and what of it is left at the end. Other runs may go on beside it.

Its processes carry a mark in their environment. Its BPF objects are those to which they have a descriptor.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from experiments.kit.machine import SETTLE_S
from sluice.dataplane.inventory import BpfThing, bpf_things
from sluice.runtime.wait import wait_until
from sluice.topologies.processes import process_ids

MARK = "SLUICE_RUN_MARK"
KINDS = {"map_id": "map", "prog_id": "prog", "link_id": "link"}
"""Lines of /proc/PID/fdinfo, and the kinds of dataplane.inventory."""


class Belongings:
    """Processes that are started while it exists get the mark."""

    def __init__(self) -> None:
        os.environ[MARK] = str(uuid.uuid4())
        self._mark = f"{MARK}={os.environ[MARK]}"
        self._bpf: set[tuple[str, int]] = set()
        self._interfaces = _interfaces()

    def look(self) -> None:
        """Note what the processes hold now. Call this several times during a run."""
        for pid in self._processes():
            self._bpf |= set(_held(pid))

    def left(self) -> list[str]:
        """Return what is left after SETTLE_S. Returns early if nothing is."""
        os.environ.pop(MARK, None)
        with suppress(TimeoutError):
            wait_until(lambda: not self._left(), "the kernel has released everything", timeout_s=SETTLE_S)
        return self._left()

    def _left(self) -> list[str]:
        left = [f"process {_name(pid)} ({pid})" for pid in self._processes()]
        # An object that another run also uses belongs to that one, for example the machine's congestion controls.
        mine = self._bpf - {thing for pid in process_ids() for thing in _held(pid)}
        left += [_described(thing) for thing in sorted(bpf_things()) if (thing.kind, thing.id) in mine]
        return left + [f"interface {name}" for name in sorted(_interfaces() - self._interfaces)]

    def _processes(self) -> Iterator[int]:
        mark = os.fsencode(self._mark)
        for pid in process_ids():
            with suppress(OSError):
                if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    yield pid


def _held(pid: int) -> Iterator[tuple[str, int]]:
    """Yield kind and id of the BPF objects to which a process has a descriptor."""
    with suppress(OSError):
        for file in Path(f"/proc/{pid}/fdinfo").iterdir():
            with suppress(OSError):
                for line in file.read_text().splitlines():
                    name, _, value = line.partition(":")
                    if name in KINDS:
                        yield KINDS[name], int(value)


def _interfaces() -> frozenset[str]:
    return frozenset(path.name for path in Path("/sys/class/net").iterdir())


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return "?"


def _described(thing: BpfThing) -> str:
    return f"{thing.kind} {thing.name} ({thing.id})"
