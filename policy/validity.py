# SPDX-License-Identifier: Apache-2.0
"""When figures show the network and not the machine: the limits for CPU, late ports and lost packets, and the reasons.

`sluice run` judges a whole run by them, and the web process the last seconds of a live network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from policy import names
from policy.entries import entry
from policy.kinds import MapOf, Number, Text, Whole

CPU_LIMIT = 0.97
"""Share of all cores' time. Above it, processes wait for the CPU, and the FCT measures that wait."""
LATE_LIMIT = 0.05
"""Limit of a port's lateness as a share of its sending time. Flows through the port take longer by
at least this share."""
LEAST_BUSY_S = 1.0
"""A port that sent for less time than this is not judged."""
MOST_PLACES = 64

CPU, LATE, LOST, CLOCK = "cpu", "late", "lost", "clock"

REMEDY = "lower the rates or the load"

_PLACE = Text(
    r"[A-Za-z ]{1,100} [^\x00-\x20\x7f]{1,20}", what="a place that ends with the name of an interface"
)


@dataclass(frozen=True)
class MachineStatus:
    """How well a machine emulated its ports lately."""

    window_s: float = entry(Number(0, 3600, "s"), "Length of the time that the figures are about.")
    cpu_busy: float = entry(Number(0, 1), "Busy share of all cores.")
    late: Mapping[str, float] = entry(
        MapOf(names.PORT, Number(0, 1e6), 1024),
        "Port: lateness as a share of its sending time, of ports above the limit.",
        default={},
    )
    lost: Mapping[str, int] = entry(
        MapOf(_PLACE, Whole(1, 2**63 - 1), MOST_PLACES),
        "Place: packets lost there, outside the emulated queues.",
        default={},
    )


@dataclass(frozen=True)
class Flaw:
    """A reason why figures are not valid."""

    kind: str
    """CPU, LATE, LOST or CLOCK."""
    where: str
    problem: str
    remedy: str


def flaws(status: MachineStatus, where: str) -> Iterator[Flaw]:
    """Yield why the figures of the last seconds are not valid. `where` names the machine's agent."""
    lately = f"in the last {status.window_s:.0f} s"
    if status.cpu_busy > CPU_LIMIT:
        yield Flaw(
            CPU,
            where,
            f"the CPU was {status.cpu_busy:.0%} busy {lately}, so flows waited for it",
            REMEDY,
        )
    for port, share in status.late.items():
        if share > LATE_LIMIT:
            yield Flaw(
                LATE,
                port,
                f"the machine served port {port} late, by {share:.0%} of its sending time {lately}",
                REMEDY,
            )
    for place, packets in status.lost.items():
        yield Flaw(
            LOST, place, f"{packets} packets were lost outside the emulated queues {lately}: {place}", REMEDY
        )
