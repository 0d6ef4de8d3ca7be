# SPDX-License-Identifier: Apache-2.0
"""How many ports two controllers hold that share the switches, compared with one, on the same cores.

The fabric is larger than one controller can hold, so the share of the due polls that are made says how many ports it
holds. Under `mlfq-adaptive`, one controller holds nearly the largest fabric, so the scheme is `sluice`.
Simulated switches need CPU time, too: on two cores, two controllers and the switches compete for them.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from sluice.bench.control import INTERVAL_MS, Crew, measure_loop

__all__ = ["INTERVAL_MS", "SCHEME", "Shared", "measure_shared"]

SCHEME, LEAVES = "sluice", 40
ROUNDS = 3


@dataclass(frozen=True)
class Shared:
    """Ports whose counters are read in every interval: medians, and the median ratio of neighbouring measurements."""

    by_one: float
    by_two: float
    ratio: float


def measure_shared() -> Shared:
    """Measure one and two controllers in turn."""
    ones, twos = [], []
    for _ in range(ROUNDS):
        ones.append(_held_ports(1))
        twos.append(_held_ports(2))
    ratios = [two / one for one, two in zip(ones, twos, strict=True)]
    return Shared(statistics.median(ones), statistics.median(twos), statistics.median(ratios))


def _held_ports(controllers: int) -> float:
    loop = measure_loop(SCHEME, LEAVES, crew=Crew(controllers, is_pinned=False))
    return loop.ports * loop.kept
