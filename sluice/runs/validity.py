# SPDX-License-Identifier: Apache-2.0
"""Whether the network and not the machine decided an emulated run: CPU load, packets that wait for
the switch process, and ports that send late."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from policy.validity import CPU_LIMIT, LATE_LIMIT, LEAST_BUSY_S, REMEDY
from runtime.machine_load import machine_ticks
from topologies.testbed import PortService, Testbed

CPU_SAMPLE_S = 0.5
WAITING_SAMPLE_S = 0.02
WAITING_LIMIT_BYTES = 65_536
"""Limit of the memory of packets that wait for ovs-vswitchd. Its one thread moves every packet of
a userspace datapath.

These are about 28 full packets, which take it two milliseconds at worst. Its CPU time shows no
overload. If packets come one by one, it is always busy at 12,000 packets a second, and almost none
waits (p99: 4 packets). If packets come in batches, it moves many more.
"""
EXCEEDED_SHARE_LIMIT = 0.05
"""The greatest share of the samples that may exceed a limit."""


@dataclass
class RunWatch:
    """Samples the machine's CPU and the packets that wait for the switches during a run, and reads
    how late ports were."""

    switch_pid: int
    """Process id of ovs-vswitchd."""
    service: Callable[[], Mapping[str, PortService]]
    """Returns each port's sending time and lateness since its agent started."""
    machine: list[float] = field(default_factory=list)
    switch: list[float] = field(default_factory=list)
    """Shares of one core."""
    waiting_bytes: list[int] = field(default_factory=list)
    late: dict[str, float] = field(default_factory=dict)
    """Port id → lateness as a share of its sending time."""

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
        return (time.monotonic(), *machine_ticks(), _process_ticks(self.switch_pid))

    def reasons(self) -> list[str]:
        """Return why the run is not valid; empty if it is valid."""
        found = []
        busy = _share_above(self.machine, CPU_LIMIT)
        if busy > EXCEEDED_SHARE_LIMIT:
            found.append(f"the CPU was saturated (above {CPU_LIMIT:.0%}) in {busy:.0%} of the run; {REMEDY}")
        behind = _share_above(self.waiting_bytes, WAITING_LIMIT_BYTES)
        if behind > EXCEEDED_SHARE_LIMIT:
            found.append(
                f"ovs-vswitchd fell behind (more than {WAITING_LIMIT_BYTES} bytes of packets waited for it) in "
                f"{behind:.0%} of the run; {REMEDY}"
            )
        found += [
            f"the machine served port {port} late, by {share:.0%} of the port's sending time; {REMEDY}"
            for port, share in self.late.items()
            if share > LATE_LIMIT
        ]
        return found

    def summary(self) -> dict[str, float]:
        """Return mean and peak CPU shares, and the bytes that waited for the switches, for meta.json."""
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
    """Return port id → lateness as a share of the sending time between two readings, for ports
    that sent long enough."""
    found = {}
    for port, now in after.items():
        then = before.get(port, PortService(0.0, 0.0))
        if now.busy_s < then.busy_s:  # the port agent restarted and counts from zero
            then = PortService(0.0, 0.0)
        if now.busy_s - then.busy_s >= LEAST_BUSY_S:
            found[port] = (now.late_s - then.late_s) / (now.busy_s - then.busy_s)
    return found


def _share_above(samples: Sequence[float], limit: float) -> float:
    return sum(sample > limit for sample in samples) / max(len(samples), 1)


def _waiting_bytes(pid: int) -> int:
    """Return the memory of the packets in the packet sockets of a process's network namespace."""
    try:
        lines = Path(f"/proc/{pid}/net/packet").read_text().splitlines()[1:]
    except OSError:  # the process has ended
        return 0
    return sum(int(line.split()[6]) for line in lines)


def _process_ticks(pid: int) -> int:
    """Return the ticks of a process's first thread, which forwards the packets."""
    try:
        fields = Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0
    return int(fields[11]) + int(fields[12])
