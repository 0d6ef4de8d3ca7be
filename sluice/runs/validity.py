# SPDX-License-Identifier: Apache-2.0
"""Whether the network and not the machine decided an emulated run, by what happened to its packets and flows.

`RunWatch` compares two readings of switches and ports, `HostDelays` adds up what the agents report. Each reason names
a consequence: packets forwarded late, ports served late, packets lost, flows started or answered late. A busy CPU
alone is a remark.

`measure` finds the rates of the default demonstration that this machine can forward. The demonstration is self-
similar: with n times the rate of all links and a n-th of all times (deadlines, minimum RTO), the same packets meet the
same queues, n times as fast. So sizes, K and buffer stay as they are in packets, and small, medium and large flows
still differ in the same way.

A probe measures the CPU time that the switch takes for a packet here and now, with as many packets a second as in the
demonstration, because fewer of them cost more each: a wake-up of the switch then forwards fewer. The demonstration's
whole CPU time (the switch, hosts, controller and web process) grows with it, so one packet's cost predicts all of it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.policy import units
from sluice.policy.figures import validity as law
from sluice.policy.wire.agents import HostHeartbeat
from sluice.runtime.identity import Ticks, machine_ticks
from sluice.runtime.process import Priority
from sluice.topologies import build
from sluice.topologies.commands import install
from sluice.topologies.measure import Sender, transmit
from sluice.topologies.testbed import PortService, Testbed

CPU_GOAL, CPU_GOAL_WITHOUT_REALTIME = 0.6, 0.4
"""The share of the free cores that the demonstration may take.

Without real time, the switch waits for the hosts at times. Then small flows take 1.5 times as long at 8 Mb/s on two
cores, and 1.15 times at 4 Mb/s (docs/measurements/costs.md).
"""
FIXED_PACKETS_PER_S, PACKETS_PER_BIT = 9000.0, 1.4e-3
"""The CPU time of a whole demonstration in packets of the probe: at rest, and for each bit/s of its links' rate.

Measured with links of 1, 3 and 6 Mb/s (docs/measurements/costs.md): 1.04, 1.36 and 1.67 cores at 88 to 113 us a packet.
"""
RATES_BPS = tuple(round(mbit * 1e6) for mbit in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10))
LOOK_S = 0.5
SENDERS, PACKETS_OF_EACH, PROBE_BYTES, PAUSE_S, PROBE_BPS = 4, 700, 100, 0.0005, 20_000_000


@dataclass(frozen=True)
class Forwarding:
    """What this machine can give to a demonstration."""

    cores: float
    free_cores: float
    """Cores that no other process used in the moment after."""
    packet_us: float
    """CPU time of ovs-vswitchd for one packet of the probe, with some 6,000 of them a second."""
    priority: Priority
    """What runs the switch before other processes."""

    def rate_bps(self) -> int:
        """Return the greatest of RATES_BPS with which the demonstration takes at most its share of the free cores."""
        share = CPU_GOAL if self.priority is Priority.REALTIME else CPU_GOAL_WITHOUT_REALTIME
        packets_per_s = share * self.free_cores * units.US_PER_S / self.packet_us
        affordable = (packets_per_s - FIXED_PACKETS_PER_S) / PACKETS_PER_BIT
        return max((rate for rate in RATES_BPS if rate <= affordable), default=RATES_BPS[0])

    def __str__(self) -> str:
        return (
            f"a packet takes the switch {self.packet_us:.0f} us, and {self.free_cores:.1f} of {self.cores:g} cores are"
            f" free; the switch runs {self.priority}"
        )


def measure() -> Forwarding:
    """Measure for about two seconds, in a small network of its own. Raises SluiceError if there can be none.

    The free cores are measured last: in containers, the web process and the controller have just been started.
    """
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
        priority = bed.priority
    return Forwarding(cores(), free_cores(LOOK_S), packet_us, priority)


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


SWITCH = "ovs-vswitchd"
BUSY = 0.9
"""A remark says that the CPU was busier."""


@dataclass(frozen=True)
class Reading:
    """Counters of a testbed at one moment."""

    at_s: float
    machine: Ticks
    switch_s: float
    """CPU time of the thread that forwards the packets."""
    switch_restarts: int
    service: Mapping[str, PortService]
    forwarding: tuple[int, ...]
    losses: Mapping[str, int]

    @classmethod
    def of(cls, bed: Testbed) -> Reading:
        report = bed.port_report()
        return cls(
            time.monotonic(),
            machine_ticks(),
            bed.switch_cpu_s(),
            bed.restarts[SWITCH],
            bed.port_service(report),
            report.forwarding,
            bed.losses(),
        )


Spans = Sequence[tuple[Reading, Reading]]
"""The first and the last reading of each span of time."""


class RunWatch:
    """Judges what the machine did to the packets of a testbed while the context is open, which may be several times.

    Open it once the agents report, and close it before they end. An agent that ends takes its queues along with the
    packets in them, and as the kernel detaches its program, the interface drops what others still ask of it.
    """

    def __init__(self, testbed: Testbed, spans: Spans = ()) -> None:
        self._testbed, self._spans = testbed, list(spans)

    def __enter__(self) -> RunWatch:
        self._before = Reading.of(self._testbed)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, KeyboardInterrupt):
            self._spans.append((self._before, Reading.of(self._testbed)))

    def reasons(self) -> list[str]:
        """Return why what happened does not represent a network; empty if the run is valid."""
        reasons = []
        restarts = sum(after.switch_restarts - before.switch_restarts for before, after in self._spans)
        if restarts:
            reasons.append(f"{SWITCH} ended or hung, and the testbed restarted it {restarts} times")
        late = law.share_forwarded_late(self._forwarding())
        if late > law.FORWARDED_LATE_LIMIT:
            reasons.append(f"{law.forwarded_late(late, 'of the run')}; {law.REMEDY}")
        reasons += [
            f"the machine served port {port} late, by {share:.0%} of the port's sending time; {law.REMEDY}"
            for port, share in self._lateness().items()
            if share > law.LATE_LIMIT
        ]
        return reasons + loss_reasons((before.losses, after.losses) for before, after in self._spans)

    def _forwarding(self) -> tuple[int, ...]:
        return law.total_delays(law.delays_between(b.forwarding, a.forwarding) for b, a in self._spans)

    def _lateness(self) -> dict[str, float]:
        return lateness((before.service, after.service) for before, after in self._spans)

    def remarks(self) -> list[str]:
        """Return what a reader should know although it is no reason against the run: a busy machine."""
        busy = self.summary()["machine_cpu_mean"]
        return [f"the CPU was {busy:.0%} busy"] if busy > BUSY else []

    def summary(self) -> dict[str, Any]:
        """Return mean CPU shares, the worst port and the forwarding delays, for meta.json."""
        machine = [(before.machine, after.machine) for before, after in self._spans]
        busy, total = (sum(after[i] - before[i] for before, after in machine) for i in range(2))
        switch_s = sum(max(after.switch_s - before.switch_s, 0.0) for before, after in self._spans)
        seconds = sum(after.at_s - before.at_s for before, after in self._spans)
        forwarding = self._forwarding()
        return {
            "machine_cpu_mean": round(busy / max(total, 1), 3),
            "switch_cpu_mean": round(switch_s / max(seconds, 1e-9), 3),
            "port_late_worst": round(max(self._lateness().values(), default=0.0), 4),
            "forwarding": list(forwarding),
            "forwarded_late": round(law.share_forwarded_late(forwarding), 4),
        }


def lateness(
    spans: Iterable[tuple[Mapping[str, PortService], Mapping[str, PortService]]],
) -> dict[str, float]:
    """Return port id → lateness as a share of the sending time in all spans, for ports that sent long enough.

    `spans`: the first and the last reading of each.
    """
    busy_s, late_s = defaultdict[str, float](float), defaultdict[str, float](float)
    for before, after in spans:
        for port, now in after.items():
            then = before.get(port, PortService(0.0, 0.0))
            if now.busy_s < then.busy_s:  # the port agent restarted and counts from zero
                then = PortService(0.0, 0.0)
            busy_s[port] += now.busy_s - then.busy_s
            late_s[port] += now.late_s - then.late_s
    return {port: late_s[port] / busy_s[port] for port in busy_s if busy_s[port] >= law.LEAST_BUSY_S}


def loss_reasons(spans: Iterable[tuple[Mapping[str, int], Mapping[str, int]]]) -> list[str]:
    """Return where packets were lost outside the emulated queues, as reasons against validity.

    `spans`: the first and the last reading of each.
    """
    lost = Counter[str]()
    for before, after in spans:
        lost.update({place: max(count - before.get(place, 0), 0) for place, count in after.items()})
    return [
        f"{packets} packets were lost outside the emulated queues: {place}"
        for place, packets in lost.items()
        if packets
    ]


@dataclass
class HostDelays:
    """How late hosts started flows and noted their ends, over all agents that a run has had."""

    started: tuple[int, ...] = law.NO_DELAYS
    answered: tuple[int, ...] = law.NO_DELAYS

    def add(self, beats: Iterable[HostHeartbeat]) -> None:
        """Add the last heartbeats of agents that have ended."""
        beats = tuple(beats)
        self.started = law.total_delays([self.started, *(beat.start_delays for beat in beats)])
        self.answered = law.total_delays([self.answered, *(beat.answer_delays for beat in beats)])

    def reasons(self) -> list[str]:
        """Return why the hosts' part of the run is not valid."""
        return [
            f"hosts {what} {share:.1%} of the flows later than after the flow's ideal FCT; {law.REMEDY}"
            for what, counts in (("started", self.started), ("answered", self.answered))
            if (share := law.share_late(counts)) > law.HOST_LATE_LIMIT
        ]

    def summary(self) -> dict[str, Any]:
        """Return the distributions, for meta.json."""
        return {"start_delays": list(self.started), "answer_delays": list(self.answered)}
