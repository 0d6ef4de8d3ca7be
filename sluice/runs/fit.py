# SPDX-License-Identifier: Apache-2.0
"""Rates of the default demonstration that this machine can forward.

The demonstration is self-similar: with n times the rate of all links and a n-th of all times (deadlines, minimum RTO),
the same packets meet the same queues, n times as fast. So sizes, K and buffer stay as they are in packets, and small,
medium and large flows still differ in the same way.

A probe measures the CPU time that the switch takes for a packet here and now, with as many packets a second as in the
demonstration, because fewer of them cost more each: a wake-up of the switch then forwards fewer. The demonstration's whole
CPU time (the switch, hosts, controller and web process) grows with it, so one packet's cost predicts all of it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.policy import units
from sluice.runtime.identity import machine_ticks
from sluice.topologies import build
from sluice.topologies.commands import install
from sluice.topologies.measure import Sender, transmit
from sluice.topologies.testbed import Testbed

CPU_GOAL = 0.6
"""The share of the free cores that the demonstration may take."""
FIXED_PACKETS_PER_S, PACKETS_PER_BIT = 9000.0, 1.4e-3
"""The CPU time of a whole demonstration in packets of the probe: at rest, and for each bit/s of its links' rate.

Measured with links of 2.5, 5 and 8 Mb/s (docs/measurements/costs.md): 0.80, 0.98 and 1.36 cores at 67 us a packet.
"""
RATES_BPS = tuple(round(mbit * 1e6) for mbit in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10))
LOOK_S = 0.5
SENDERS, PACKETS_OF_EACH, PROBE_BYTES, PAUSE_S, PROBE_BPS = 4, 700, 100, 0.0005, 20_000_000


@dataclass(frozen=True)
class Forwarding:
    """What this machine can give to a demonstration."""

    cores: float
    free_cores: float
    """Cores that no other process used in the moment before."""
    packet_us: float
    """CPU time of ovs-vswitchd for one packet of the probe, with some 6,000 of them a second."""
    priority: str
    """What runs the switch before other processes."""

    def rate_bps(self) -> int:
        """Return the greatest of RATES_BPS with which the demonstration takes at most CPU_GOAL of the free cores."""
        packets_per_s = CPU_GOAL * self.free_cores * units.US_PER_S / self.packet_us
        affordable = (packets_per_s - FIXED_PACKETS_PER_S) / PACKETS_PER_BIT
        return max((rate for rate in RATES_BPS if rate <= affordable), default=RATES_BPS[0])

    def __str__(self) -> str:
        return (
            f"a packet takes the switch {self.packet_us:.0f} us, and {self.free_cores:.1f} of {self.cores:g} cores are"
            f" free; the switch runs {self.priority}"
        )


def measure() -> Forwarding:
    """Measure for about two seconds, in a small network of its own. Raises SluiceError if there can be none."""
    free = free_cores(LOOK_S)
    graph = build("single", hosts=SENDERS + 1, host_rate_bps=PROBE_BPS)
    with (
        tempfile.TemporaryDirectory(prefix="sluice-") as folder,
        Testbed.start(graph, Path(folder), controller=None) as bed,
    ):
        for command in install(graph):
            bed.ovs(command.argv, stdin=command.stdin)
        *senders, receiver = graph.hosts
        probes = [
            Sender(host.name, receiver.ipv4, count=PACKETS_OF_EACH, size_bytes=PROBE_BYTES, pause_s=PAUSE_S)
            for host in senders
        ]
        before_s = bed.switch_cpu_s()
        packets = transmit(bed, receiver.name, probes, idle_s=0.1).packets
        packet_us = (bed.switch_cpu_s() - before_s) * units.US_PER_S / packets
        return Forwarding(cores(), free, packet_us, bed.priority)


def cores() -> float:
    """Return the cores that this process may use, by its affinity and the limits of its control groups."""
    allowed = float(len(os.sched_getaffinity(0)))
    limits = [_cgroup("cpu.max"), (*_cgroup("cpu/cpu.cfs_quota_us"), *_cgroup("cpu/cpu.cfs_period_us"))]
    quotas = [int(words[0]) / int(words[1]) for words in limits if len(words) == 2 and words[0].isdigit()]
    return min([allowed, *quotas])


def _cgroup(name: str) -> tuple[str, ...]:
    try:
        return tuple(Path("/sys/fs/cgroup", name).read_text().split())
    except OSError:
        return ()


def free_cores(seconds: float) -> float:
    """Return how many cores were free for so long. A machine whose cores are all busy still shares one."""
    before = machine_ticks()
    time.sleep(seconds)
    after = machine_ticks()
    busy = (after.busy - before.busy) / max(1, after.total - before.total)
    return max(0.5, cores() * (1 - busy))


def at_rate(document: Mapping[str, Any], rate_bps: int) -> dict[str, Any]:
    """Return the tables of a scenario that change with the rate of its links, all of which have the same."""
    fabric, transport, deadlines = (document[name] for name in ("fabric", "transport", "deadlines"))
    slower = units.rate_bps("fabric.host_rate", fabric["host_rate"]) / rate_bps
    return {
        "fabric": dict.fromkeys(("host_rate", "core_rate"), f"{rate_bps}bit"),
        "transport": {"rto_min": _times("transport.rto_min", transport["rto_min"], slower)},
        "deadlines": {key: _times(f"deadlines.{key}", deadlines[key], slower) for key in ("min", "max")},
    }


def _times(key: str, value: object, factor: float) -> str:
    return f"{round(units.time_ns(key, value) * factor / units.NS_PER_MS)}ms"
