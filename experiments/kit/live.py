# SPDX-License-Identifier: Apache-2.0
"""Checks on a running stack: short random flows, waiting, gaps in a port's service, the machine before and after."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.kit.experiment import Claim
from sluice.dataplane.inventory import BpfThing, bpf_things
from sluice.policy.wire.records import FlowRecord, ScheduledFlow
from sluice.policy.workload.scenario import scheduled_flows
from sluice.runs.files import need_root, scenario_with
from sluice.runs.stack import Stack
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
    """Number of network namespaces that any process is in."""
    interfaces: frozenset[str]
    qdiscs: int
    pinned: frozenset[str]

    @classmethod
    def look(cls) -> Machine:
        bpf = frozenset(bpf_things())
        namespaces = set()
        for link in Path("/proc").glob("[0-9]*/ns/net"):
            with suppress(OSError):  # the process has just ended
                namespaces.add(str(link.readlink()))
        return cls(
            bpf=bpf,
            namespaces=len(namespaces),
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


def one_record_each(scheduled: Sequence[str], records: Sequence[FlowRecord]) -> Claim:
    """Claim that every flow has one record. `scheduled`: ids of the flows."""
    counted = Counter(record.id for record in records)
    lost, doubled = set(scheduled) - set(counted), [i for i, n in counted.items() if n > 1]
    measured = f"{len(lost)} lost, {len(doubled)} doubled of {len(scheduled)}"
    holds = len(scheduled) > 0 and not lost and not doubled
    return Claim("every flow has one record", "none lost, none doubled", measured, holds)


@contextmanager
def running(
    document: Mapping[str, Any], rng: np.random.Generator, out: Path
) -> Iterator[tuple[Stack, list[ScheduledFlow]]]:
    """Yield the components that run a scenario on the testbed, and its flows, which no agent has yet. Needs root.

    The flows' ids have the scenario's name and the time. An earlier run in `out` is replaced.
    """
    need_root()
    scenario, _, topology = scenario_with(document)
    flows = scheduled_flows(scenario, topology, rng, f"{scenario.name}-{int(time.time())}")
    shutil.rmtree(out, ignore_errors=True)
    with Stack.start(scenario, topology, out) as stack:
        yield stack, flows


CHECK_S = 0.05


def run_until(
    stack: Stack, due: float, each: Callable[[], None] = lambda: None, every_s: float = CHECK_S
) -> None:
    """Wait until an epoch second. During the wait, check the stack and call `each`."""
    while time.time() < due:
        stack.check()
        each()
        time.sleep(max(0.0, min(every_s, due - time.time())))


def wait_for_records(stack: Stack, wanted: int, until: float) -> None:
    """Wait until the run has `wanted` flow records, or until an epoch second."""
    while stack.recorded() < wanted and time.time() < until:
        run_until(stack, time.time() + CHECK_S)


def poisson_starts_s(rng: np.random.Generator, per_s: float, seconds: float) -> list[float]:
    """Return start times of flows within `seconds`, with exponential gaps."""
    starts_s = np.cumsum(rng.exponential(1 / per_s, int(seconds * per_s)))
    return [float(start_s) for start_s in starts_s if start_s < seconds]


def short_flow(source: str, to: str, size_kb: Any, start_s: float) -> dict[str, Any]:
    """Return a [[workload.flow]] table."""
    return {"from": source, "to": to, "bytes": f"{size_kb}KB", "start": microseconds(start_s)}


def scheme_table(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy's document as a scenario's table [scheme]."""
    return {"name" if key == "scheme" else key: value for key, value in policy.items()}


def microseconds(seconds: float) -> str:
    """Return a time in the form of scenario files."""
    return f"{round(seconds * 1e6)}us"


LOOK_S = 0.002
WORTH_TELLING_S = 0.05


@dataclass(frozen=True)
class Gap:
    """A time without any packet."""

    ended_at: float
    """Epoch seconds."""
    length_s: float


class PortGaps:
    """A context manager that watches for gaps in what an interface in a process's network namespace sends.

    A gap lasts from the first reading of a count to the last reading of the same count. A time without readings,
    because the machine was busy, is recorded separately and is no gap.
    """

    def __init__(self, pid: int, interface: str) -> None:
        self._file = Path(f"/proc/{pid}/net/dev")
        self._interface = interface
        self.longest_gap_s = 0.0
        """The longest gap since the first packet."""
        self.longest_without_s = 0.0
        """The longest time between two readings. A gap may have been longer by this time."""
        self.gaps: list[Gap] = []
        """The gaps of at least WORTH_TELLING_S."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="port-gaps", daemon=True)

    def __enter__(self) -> PortGaps:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        packets, read_s = self._read()
        since_s: float | None = None  # when this count was first read, if a packet came before
        while not self._stop.wait(LOOK_S):
            before_s, before = read_s, packets
            packets, read_s = self._read()
            self.longest_without_s = max(self.longest_without_s, read_s - before_s)
            if packets == before:
                continue
            gap_s = 0.0 if since_s is None else before_s - since_s
            since_s, self.longest_gap_s = read_s, max(self.longest_gap_s, gap_s)
            if gap_s >= WORTH_TELLING_S:
                self.gaps.append(Gap(time.time(), gap_s))

    def _read(self) -> tuple[int, float]:
        return sent_packets(self._file.read_text(), self._interface), time.monotonic()


def sent_packets(text: str, interface: str) -> int:
    """Return the packets that an interface has sent, from the text of /proc/net/dev. KeyError:
    unknown interface."""
    for line in text.splitlines():
        name, _, figures = line.partition(":")
        if name.strip() == interface:
            return int(figures.split()[9])
    raise KeyError(interface)
