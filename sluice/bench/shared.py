# SPDX-License-Identifier: Apache-2.0
"""How many ports two controllers hold that share the switches, compared with one.

Each controller has a core of its own, and the simulated switches use what is left of both. So a controller with c and
switches with s CPU seconds for a port limit the ratio to 2 c / (c + s), and to 2 on more cores.

The fabrics are larger than the controllers can hold, so the share of the due polls that are made says how many ports
they hold. One controller gets half of the switches of two. With all of them, it would poll each so rarely that it would
change fewer rules, and a port would cost it less. Under `mlfq-adaptive`, one controller holds nearly the largest
fabric, so the scheme is `sluice`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sluice.bench.control import INTERVAL_MS, Crew, Loop, Place, measure_loop

__all__ = ["INTERVAL_MS", "SCHEME", "Held", "Shared", "measure_shared"]

SCHEME, LEAVES_A_CONTROLLER = "sluice", 26
ROUNDS = 3


@dataclass(frozen=True)
class Held:
    """What controllers hold, and its cost."""

    ports: float
    """Ports whose counters are read in every interval."""
    us_a_port: float
    """CPU time of the controllers for one of these ports and one interval."""
    us_a_port_of_switches: float

    @classmethod
    def of(cls, loop: Loop) -> Held:
        ports = loop.ports * loop.kept
        us_a_core = INTERVAL_MS * 1000 / ports
        return cls(ports, loop.cpu * us_a_core, loop.switches_cpu * us_a_core)

    @classmethod
    def median(cls, several: Sequence[Held]) -> Held:
        return cls(
            statistics.median(held.ports for held in several),
            statistics.median(held.us_a_port for held in several),
            statistics.median(held.us_a_port_of_switches for held in several),
        )


@dataclass(frozen=True)
class Shared:
    """Medians, and the median ratios of neighbouring measurements: two controllers to one."""

    one: Held
    two: Held
    ports_ratio: float
    cost_ratio: float


def measure_shared() -> Shared:
    """Measure one and two controllers in turn, in five minutes."""
    ones, twos = [], []
    for _ in range(ROUNDS):
        ones.append(_held(1))
        twos.append(_held(2))
    return Shared(
        one=Held.median(ones),
        two=Held.median(twos),
        ports_ratio=_ratio(twos, ones, lambda held: held.ports),
        cost_ratio=_ratio(twos, ones, lambda held: held.us_a_port),
    )


def _held(controllers: int) -> Held:
    crew = Crew(controllers, Place.CORE_EACH)
    return Held.of(measure_loop(SCHEME, LEAVES_A_CONTROLLER * controllers, crew=crew))


def _ratio(twos: Sequence[Held], ones: Sequence[Held], what: Callable[[Held], float]) -> float:
    return statistics.median(what(two) / what(one) for two, one in zip(twos, ones, strict=True))
