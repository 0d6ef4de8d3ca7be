# SPDX-License-Identifier: Apache-2.0
"""When figures show the network and not the machine: limits for what the machine did to packets, and the reasons.

`sluice run` judges a whole run by them, and the web process the last seconds of a live network. A busy CPU is no
reason: it is a cause, and the limits are about its consequences.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sluice.policy.schema import entries
from sluice.policy.schema.entries import entry
from sluice.policy.schema.kinds import ListOf, MapOf, Number, Text, Whole

DELAYS = 16
DELAYS_IN_UNIT = 8
"""Delays are counted by their ratio to a unit: class 0 is below 1/8, class i from 2^(i-1)/8 on (as in bpf/port.h)."""
FORWARDED_LATE_FRAMES = 2
"""A packet is late if the switch forwards it later than after the time of so many full frames at the egress port."""
FORWARDED_LATE_LIMIT = 0.02
"""Greatest share of packets that the switch forwards late."""
HOST_LATE_LIMIT = 0.05
"""Greatest share of flows that a host starts, or whose end it notes, later than after the flow's ideal FCT."""
LATE_LIMIT = 0.05
"""Limit of a port's lateness as a share of its sending time. Flows through the port take longer by
at least this share."""
LEAST_BUSY_S = 1.0
"""A port that sent for less time than this is not judged."""
MOST_PLACES = 64

FORWARDED, LATE, LOST, CLOCK = "forwarded", "late", "lost", "clock"

REMEDY = "lower the rates or the load"

_PLACE = Text(
    r"[A-Za-z ]{1,100} [^\x00-\x20\x7f]{1,20}", what="a place that ends with the name of an interface"
)


DELAY_COUNTS = ListOf(Whole(0, 2**63 - 1), shortest=DELAYS, longest=DELAYS)
NO_DELAYS = (0,) * DELAYS


def delay_class(delay: float, unit: float) -> int:
    """Return the class of a delay among DELAYS. Both have the same unit of time. A unit of 0 is not known: class 0."""
    eighths = int(max(0.0, DELAYS_IN_UNIT * delay / unit)) if unit else 0
    return min(eighths.bit_length(), DELAYS - 1)


def share_late(counts: Sequence[int], units: int = 1) -> float:
    """Return the share of the delays of at least so many units, a power of two; 0 without delays."""
    return sum(counts[(units * DELAYS_IN_UNIT).bit_length() :]) / max(1, sum(counts))


def share_forwarded_late(counts: Sequence[int]) -> float:
    """Return the share of the packets that the switch forwarded late."""
    return share_late(counts, FORWARDED_LATE_FRAMES)


def delays_between(before: Sequence[int], after: Sequence[int]) -> tuple[int, ...]:
    """Return the counts since `before`, or all of `after` if its process has counted from zero."""
    since = tuple(b - a for a, b in zip(before, after, strict=True))
    return tuple(after) if min(since) < 0 else since


def total_delays(many: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return the sum of several counts."""
    return tuple(map(sum, zip(NO_DELAYS, *many, strict=True)))


@dataclass(frozen=True)
class MachineStatus:
    """How well a machine emulated its ports lately."""

    window_s: float = entry(Number(0, 3600, "s"), "Length of the time that the figures are about.")
    cpu_busy: float = entry(Number(0, 1), "Busy share of all cores.")
    late: Mapping[str, float] = entry(
        MapOf(entries.PORT, Number(0, 1e6), 1024),
        "Port: lateness as a share of its sending time, of ports above the limit.",
        default={},
    )
    lost: Mapping[str, int] = entry(
        MapOf(_PLACE, Whole(1, 2**63 - 1), MOST_PLACES),
        "Place: packets lost there, outside the emulated queues.",
        default={},
    )
    forwarded_late: float = entry(
        Number(0, 1),
        "Share of the packets that the switch forwarded later than after two full frames' time. 0 if unknown.",
        default=0.0,
    )


@dataclass(frozen=True)
class Flaw:
    """A reason why figures are not valid."""

    kind: str
    """FORWARDED, LATE, LOST or CLOCK."""
    where: str
    problem: str
    remedy: str


def flaws(status: MachineStatus, where: str) -> Iterator[Flaw]:
    """Yield why the figures of the last seconds are not valid. `where` names the machine's agent."""
    lately = f"in the last {status.window_s:.0f} s"
    if status.forwarded_late > FORWARDED_LATE_LIMIT:
        yield Flaw(FORWARDED, where, forwarded_late(status.forwarded_late, lately), REMEDY)
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


def forwarded_late(share: float, when: str) -> str:
    """Return the sentence about packets that the switch forwarded late."""
    late = f"later than after {FORWARDED_LATE_FRAMES} full frames' time"
    return f"the switch forwarded {share:.1%} of the packets {when} {late}"
