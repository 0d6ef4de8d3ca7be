# SPDX-License-Identifier: Apache-2.0
"""Whether an emulated run may pass for a network: a saturated CPU, packets lost outside the emulated queues."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

SAMPLE_S = 0.5
CPU_LIMIT = 0.97
"""Share of all cores' time; above it processes wait for the CPU and the FCT measures that."""
SWITCH_LIMIT = 0.95
"""Share of one core for ovs-vswitchd, whose one thread moves every packet of a userspace datapath."""
SATURATED_SHARE_LIMIT = 0.05
"""Share of the samples that may exceed a limit."""


@dataclass
class CpuWatch:
    """Samples the machine's and the switches' CPU while a run lasts."""

    switch_pid: int
    machine: list[float] = field(default_factory=list)
    switch: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="cpu-watch", daemon=True)

    def __enter__(self) -> CpuWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        last = (time.monotonic(), *_machine_ticks(), _process_ticks(self.switch_pid))
        while not self._stop.wait(SAMPLE_S):
            now = (time.monotonic(), *_machine_ticks(), _process_ticks(self.switch_pid))
            seconds, busy, total, switch = (b - a for a, b in zip(last, now, strict=True))
            self.machine.append(busy / max(total, 1))
            self.switch.append(max(switch, 0) / os.sysconf("SC_CLK_TCK") / seconds)
            last = now

    def reasons(self) -> list[str]:
        """Why the run is not valid; empty when it is."""
        found = []
        for what, samples, limit in (
            ("the CPU", self.machine, CPU_LIMIT),
            ("ovs-vswitchd", self.switch, SWITCH_LIMIT),
        ):
            share = sum(s > limit for s in samples) / max(len(samples), 1)
            if share > SATURATED_SHARE_LIMIT:
                found.append(
                    f"{what} was saturated (above {limit:.0%}) in {share:.0%} of the run: lower rates or load"
                )
        return found

    def summary(self) -> dict[str, float]:
        """Mean and peak shares, for meta.json."""
        return {
            f"{name}_{what}": round(value, 3)
            for name, samples in (("machine_cpu", self.machine), ("switch_cpu", self.switch))
            if samples
            for what, value in (("mean", sum(samples) / len(samples)), ("peak", max(samples)))
        }


def _machine_ticks() -> tuple[int, int]:
    """Busy and total ticks of all cores; time stolen by a hypervisor is busy: we did not have it."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)


def _process_ticks(pid: int) -> int:
    """Ticks of a process's first thread, the one that forwards."""
    try:
        fields = Path(f"/proc/{pid}/task/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0
    return int(fields[11]) + int(fields[12])
