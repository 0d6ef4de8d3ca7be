# SPDX-License-Identifier: Apache-2.0
"""Whether an emulated run may pass for a network: is the CPU saturated, do packets wait for the switches, do links
send at their rate?"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from topologies.testbed import PortService, Testbed

CPU_SAMPLE_S = 0.5
CPU_LIMIT = 0.97
"""Share of all cores' time; above it processes wait for the CPU and the FCT measures that."""
WAITING_SAMPLE_S = 0.02
WAITING_LIMIT_BYTES = 65_536
"""Memory of the packets that wait for ovs-vswitchd, whose one thread moves every packet of a userspace datapath.

Some 28 full ones, which take it two milliseconds at worst. Its CPU time tells nothing: when packets come one by one it
is busy all the time at 12,000 a second, and hardly one waits (p99: 4 packets); in batches it moves many more.
"""
EXCEEDED_SHARE_LIMIT = 0.05
"""Share of the samples that may exceed a limit."""
LATE_LIMIT = 0.05
"""A port's lateness over the time of what it sent: flows through it take longer by this at least."""
LEAST_BUSY_S = 1.0
"""Of a port that sent less than this nothing is said."""


@dataclass
class RunWatch:
    """Samples the machine's CPU, and what waits for the switches, while a run lasts; and how late ports were in it."""

    switch_pid: int
    """Of ovs-vswitchd."""
    service: Callable[[], Mapping[str, PortService]]
    """What ports have done since some moment."""
    machine: list[float] = field(default_factory=list)
    switch: list[float] = field(default_factory=list)
    """Share of one core."""
    waiting_bytes: list[int] = field(default_factory=list)
    late: dict[str, float] = field(default_factory=dict)
    """Port id → lateness over the time of what it sent."""

    @classmethod
    def of(cls, testbed: Testbed) -> RunWatch:
        return cls(testbed.pids["ovs-vswitchd"], testbed.port_service)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="run-watch", daemon=True)

    def __enter__(self) -> RunWatch:
        self._service_before = self.service()
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if kind is None:
            self.late = lateness(self._service_before, self.service())

    def _sample(self) -> None:
        last = self._cpu()
        while not self._stop.wait(WAITING_SAMPLE_S):
            self.waiting_bytes.append(_waiting_bytes(self.switch_pid))
            if time.monotonic() - last[0] >= CPU_SAMPLE_S:
                now = self._cpu()
                seconds, busy, total, switch = (b - a for a, b in zip(last, now, strict=True))
                self.machine.append(busy / max(total, 1))
                self.switch.append(max(switch, 0) / os.sysconf("SC_CLK_TCK") / seconds)
                last = now

    def _cpu(self) -> tuple[float, int, int, int]:
        return (time.monotonic(), *_machine_ticks(), _process_ticks(self.switch_pid))

    def reasons(self) -> list[str]:
        """Why the run is not valid; empty when it is."""
        found = []
        busy = _share_above(self.machine, CPU_LIMIT)
        if busy > EXCEEDED_SHARE_LIMIT:
            found.append(
                f"the CPU was saturated (above {CPU_LIMIT:.0%}) in {busy:.0%} of the run: lower rates or load"
            )
        behind = _share_above(self.waiting_bytes, WAITING_LIMIT_BYTES)
        if behind > EXCEEDED_SHARE_LIMIT:
            found.append(
                f"ovs-vswitchd was behind (more than {WAITING_LIMIT_BYTES} bytes of packets waited for it) in "
                f"{behind:.0%} of the run: lower rates or load"
            )
        found += [
            f"the machine served port {port} late, by {share:.0%} of the time of what it sent: lower rates or load"
            for port, share in self.late.items()
            if share > LATE_LIMIT
        ]
        return found

    def summary(self) -> dict[str, float]:
        """Mean and peak CPU shares, and what waited for the switches, for meta.json."""
        shares = {
            f"{name}_{what}": round(value, 3)
            for name, samples in (("machine_cpu", self.machine), ("switch_cpu", self.switch))
            if samples
            for what, value in (("mean", sum(samples) / len(samples)), ("peak", max(samples)))
        }
        if self.late:
            shares["port_late_worst"] = round(max(self.late.values()), 4)
        if not self.waiting_bytes:
            return shares
        ordered = sorted(self.waiting_bytes)
        return shares | {
            "waiting_for_switch_bytes_p99": ordered[int(0.99 * len(ordered))],
            "waiting_for_switch_bytes_peak": ordered[-1],
        }


def lateness(before: Mapping[str, PortService], after: Mapping[str, PortService]) -> dict[str, float]:
    """Port id → lateness over busy time between two looks, of the ports of which there is something to say."""
    found = {}
    for port, now in after.items():
        then = before.get(port, PortService(0.0, 0.0))
        if now.busy_s < then.busy_s:  # the port agent started anew, and counts from zero
            then = PortService(0.0, 0.0)
        if now.busy_s - then.busy_s >= LEAST_BUSY_S:
            found[port] = (now.late_s - then.late_s) / (now.busy_s - then.busy_s)
    return found


def _share_above(samples: Sequence[float], limit: float) -> float:
    return sum(sample > limit for sample in samples) / max(len(samples), 1)


def _waiting_bytes(pid: int) -> int:
    """Memory of what waits in the packet sockets of a process's network namespace."""
    try:
        lines = Path(f"/proc/{pid}/net/packet").read_text().splitlines()[1:]
    except OSError:  # it has ended
        return 0
    return sum(int(line.split()[6]) for line in lines)


def _machine_ticks() -> tuple[int, int]:
    """Busy and total ticks of all cores.

    Time that a hypervisor stole is busy, because the run could not have it. Time of processes with a lower priority
    ("nice") is not: the run could have it at any moment.
    """
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    _, nice, _, idle, waiting, *_ = ticks
    return sum(ticks) - idle - waiting - nice, sum(ticks)


def _process_ticks(pid: int) -> int:
    """Ticks of a process's first thread, the one that forwards."""
    try:
        fields = Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0
    return int(fields[11]) + int(fields[12])
