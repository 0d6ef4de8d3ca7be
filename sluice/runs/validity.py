# SPDX-License-Identifier: Apache-2.0
"""Whether the network and not the machine decided an emulated run, by what happened to its packets and flows.

`RunWatch` compares two readings of switches and ports, `HostDelays` adds up what the agents report. Each reason names
a consequence: packets forwarded late, ports served late, packets lost, flows started or answered late. A busy CPU
alone is a remark.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sluice.policy.figures.validity import (
    FORWARDED_LATE_LIMIT,
    HOST_LATE_LIMIT,
    LATE_LIMIT,
    LEAST_BUSY_S,
    NO_DELAYS,
    REMEDY,
    delays_between,
    forwarded_late,
    share_forwarded_late,
    share_late,
    total_delays,
)
from sluice.policy.wire.agents import HostHeartbeat
from sluice.runtime.identity import Ticks, machine_ticks
from sluice.topologies.testbed import PortService, Testbed

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


class RunWatch:
    """Judges what the machine did to the packets of a testbed while the context is open."""

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self._after: Reading | None = None

    def __enter__(self) -> RunWatch:
        self._before = Reading.of(self._testbed)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, KeyboardInterrupt):
            self._after = Reading.of(self._testbed)

    def reasons(self) -> list[str]:
        """Return why the run is not valid; empty if it is valid."""
        return [] if self._after is None else reasons_between(self._before, self._after)

    def remarks(self) -> list[str]:
        """Return what a reader should know although it is no reason against the run."""
        return [] if self._after is None else remarks_between(self._before, self._after)

    def summary(self) -> dict[str, Any]:
        """Return mean CPU shares, the worst port and the forwarding delays, for meta.json."""
        return {} if self._after is None else summary_between(self._before, self._after)


def reasons_between(before: Reading, after: Reading) -> list[str]:
    """Return why what happened between two readings does not represent a network."""
    found = []
    restarts = after.switch_restarts - before.switch_restarts
    if restarts:
        found.append(f"{SWITCH} ended or hung, and the testbed restarted it {restarts} times")
    late = share_forwarded_late(delays_between(before.forwarding, after.forwarding))
    if late > FORWARDED_LATE_LIMIT:
        found.append(f"{forwarded_late(late, 'of the run')}; {REMEDY}")
    found += [
        f"the machine served port {port} late, by {share:.0%} of the port's sending time; {REMEDY}"
        for port, share in lateness(before.service, after.service).items()
        if share > LATE_LIMIT
    ]
    return found + loss_reasons(before.losses, after.losses)


def remarks_between(before: Reading, after: Reading) -> list[str]:
    """Return a remark on a busy machine."""
    busy = summary_between(before, after)["machine_cpu_mean"]
    return [f"the CPU was {busy:.0%} busy"] if busy > BUSY else []


def summary_between(before: Reading, after: Reading) -> dict[str, Any]:
    """Return the figures behind `reasons_between`."""
    busy, total = (b - a for a, b in zip(before.machine, after.machine, strict=True))
    switch_s, seconds = after.switch_s - before.switch_s, after.at_s - before.at_s
    late = lateness(before.service, after.service)
    forwarding = delays_between(before.forwarding, after.forwarding)
    return {
        "machine_cpu_mean": round(busy / max(total, 1), 3),
        "switch_cpu_mean": round(max(switch_s, 0.0) / seconds, 3),
        "port_late_worst": round(max(late.values(), default=0.0), 4),
        "forwarding": list(forwarding),
        "forwarded_late": round(share_forwarded_late(forwarding), 4),
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


def loss_reasons(before: Mapping[str, int], after: Mapping[str, int]) -> list[str]:
    """Return where packets were lost outside the emulated queues, as reasons against validity."""
    return [
        f"{after[place] - before.get(place, 0)} packets were lost outside the emulated queues: {place}"
        for place in after
        if after[place] > before.get(place, 0)
    ]


@dataclass
class HostDelays:
    """How late hosts started flows and noted their ends, over all agents that a run has had."""

    started: tuple[int, ...] = NO_DELAYS
    answered: tuple[int, ...] = NO_DELAYS

    def add(self, beats: Iterable[HostHeartbeat]) -> None:
        """Add the last heartbeats of agents that have ended."""
        beats = tuple(beats)
        self.started = total_delays([self.started, *(beat.start_delays for beat in beats)])
        self.answered = total_delays([self.answered, *(beat.answer_delays for beat in beats)])

    def reasons(self) -> list[str]:
        """Return why the hosts' part of the run is not valid."""
        return [
            f"hosts {what} {share:.1%} of the flows later than after the flow's ideal FCT; {REMEDY}"
            for what, counts in (("started", self.started), ("answered", self.answered))
            if (share := share_late(counts)) > HOST_LATE_LIMIT
        ]

    def summary(self) -> dict[str, Any]:
        """Return the distributions, for meta.json."""
        return {"start_delays": list(self.started), "answer_delays": list(self.answered)}
