# SPDX-License-Identifier: Apache-2.0
"""The machine before and after a run: what is left behind, and the kernel's complaints."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from experiments.kit.verdict import Claim
from sluice.dataplane.inventory import BpfThing, bpf_things
from sluice.runtime.command import run
from sluice.runtime.wait import wait_until

COMPLAINTS = ("WARNING:", "BUG:", "Oops", "general protection", "refcount_t", "Call Trace", "hung task")
SETTLE_S = 20.0
"""Time that the kernel may need to release what a run used."""


@dataclass(frozen=True)
class Machine:
    """The parts of the machine's state that must be the same before and after."""

    bpf: frozenset[BpfThing]
    namespaces: int
    interfaces: frozenset[str]
    qdiscs: int
    pinned: frozenset[str]

    @classmethod
    def look(cls) -> Machine:
        return cls(
            bpf=frozenset(bpf_things()),
            namespaces=len(_network_namespaces()),
            interfaces=frozenset(path.name for path in Path("/sys/class/net").iterdir()),
            qdiscs=len(run(["tc", "qdisc", "show"]).splitlines()),
            pinned=frozenset(str(path) for path in Path("/sys/fs/bpf").rglob("*")),
        )

    def left_behind(self, before: Machine) -> list[str]:
        """Return what exists now and did not exist before, as text."""
        new = [f"{thing.kind} {thing.name} ({thing.id})" for thing in sorted(self.bpf - before.bpf)]
        new += [f"interface {name}" for name in sorted(self.interfaces - before.interfaces)]
        new += [f"pinned {path}" for path in sorted(self.pinned - before.pinned)]
        for what, now, then in (
            ("network namespaces", self.namespaces, before.namespaces),
            ("qdiscs", self.qdiscs, before.qdiscs),
        ):
            new += [f"{now - then} {what}"] if now > then else []
        return new


def _network_namespaces() -> set[str]:
    """Return the namespaces that any process is in."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):  # the process has just ended
            found.add(str(link.readlink()))
    return found


def kernel_complaints() -> list[str]:
    """Return the lines of the kernel's log that no run should cause."""
    return [line for line in run(["dmesg"]).splitlines() if any(word in line for word in COMPLAINTS)]


def left_over(before: Machine) -> list[str]:
    """Return what is left behind after SETTLE_S. Returns early if nothing is."""
    try:
        wait_until(
            lambda: not Machine.look().left_behind(before),
            "the kernel has released everything",
            timeout_s=SETTLE_S,
        )
    except TimeoutError:
        return Machine.look().left_behind(before)
    return []


def nothing_left(left: list[str]) -> Claim:
    return Claim("left behind", "nothing", ", ".join(left) or "nothing", not left)
