# SPDX-License-Identifier: Apache-2.0
"""Faults of controllers that share the switches: those of `faults.py`, orderly ends, and cuts between the parts.

Targets of cuts are a controller, or a controller and a switch ("controller-2 s1").
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from experiments.checks.random_faults import faults
from experiments.checks.random_faults.faults import Fault, Undo
from experiments.checks.random_faults.shared_stack import SharedStack

KINDS = {
    "kill": 5,
    "stop": 5,
    "end": 2,
    "disconnect": 1,
    "link": 1,
    "cut-switches": 2,
    "cut-switch": 2,
    "cut-store": 2,
    "cut-stores": 1,
    "isolate": 2,
}
"""How often each kind comes in one round. The order of a round is random."""
SECONDS = {
    "kill": (0.2, 6.0),
    "stop": (0.2, 6.0),
    "end": (0.2, 6.0),
    "disconnect": (0.2, 5.0),
    "link": (0.2, 1.0),
    "cut-switches": (0.2, 8.0),
    "cut-switch": (0.2, 8.0),
    "cut-store": (0.2, 20.0),
    "cut-stores": (0.2, 8.0),
    "isolate": (0.2, 12.0),
}
"""The shortest and longest duration. A controller that was killed or ended stays away for so long, and then until its
new process listens."""
OTHERS_SECONDS = {"kill": (0.0, 0.0), "stop": (0.2, 5.0)}
"""The same for processes that are no controllers."""
OF_CONTROLLERS = 0.6
"""The probability that a killed or stopped process is a controller."""
ALL = "all controllers"


@dataclass(frozen=True)
class Episode:
    """A fault that has ended. Times are epoch seconds."""

    fault: Fault
    ended_at: float

    @property
    def controller(self) -> str:
        """The controller that it has hit; empty if it hit another part, or all of them."""
        name = self.fault.target.split(" ")[0]
        return name if name.startswith("controller-") else ""


class Draws:
    """Draws fault after fault."""

    def __init__(self, stack: SharedStack, rng: np.random.Generator) -> None:
        self._stack, self._rng = stack, rng
        self._kinds = self._rounds()

    def _rounds(self) -> Iterator[str]:
        one = [kind for kind, count in KINDS.items() for _ in range(count)]
        while True:
            yield from map(str, self._rng.permutation(one))

    def next(self) -> Fault:
        kind = next(self._kinds)
        target = self._target(kind)
        known = SECONDS if target.startswith("controller-") or kind not in OTHERS_SECONDS else OTHERS_SECONDS
        return Fault(kind, target, float(self._rng.uniform(*known[kind])), time.time())

    def _target(self, kind: str) -> str:
        topology, controllers = self._stack.topology, list(self._stack.numbers)
        match kind:
            case "kill" | "stop" if self._rng.random() >= OF_CONTROLLERS:
                return self._one(
                    other for other in faults.process_names(self._stack) if other not in controllers
                )
            case "link":
                return self._one([port.interface for port in topology.ports])
            case "cut-switch" | "disconnect":
                return f"{self._one(controllers)} {self._one([switch.name for switch in topology.switches])}"
            case "cut-stores":
                return ALL
            case _:
                return self._one(controllers)

    def _one(self, targets: Sequence[str] | Iterator[str]) -> str:
        return str(self._rng.choice(list(targets)))


def inject(stack: SharedStack, fault: Fault) -> Undo:
    """Make the fault happen. Returns the function that ends it."""
    name, _, switch = fault.target.partition(" ")
    dpid = next((one.dpid for one in stack.topology.switches if one.name == switch), None)
    match fault.kind:
        case "kill" | "end" if name in stack.numbers:
            stack.take_down(name, kill=fault.kind == "kill")
            return partial(stack.bring_back, name)
        case "cut-switches" | "cut-switch":
            stack.relay.silence(name, dpid)
            return partial(stack.relay.heal, name, dpid)
        case "isolate":
            stack.relay.silence(name)
            return _both(partial(stack.relay.heal, name), _cut_from_store(stack, [name]))
        case "disconnect":
            assert dpid is not None
            stack.relay.refuse(name, dpid)
            return partial(stack.relay.heal, name, dpid)
        case "cut-store" | "cut-stores":
            return _cut_from_store(stack, [name] if name in stack.numbers else list(stack.numbers))
        case _:
            return faults.inject(stack, fault)


def _both(first: Undo, second: Undo) -> Undo:
    def undo() -> None:
        first()
        second()

    return undo


def _cut_from_store(stack: SharedStack, names: Sequence[str]) -> Undo:
    numbers = [stack.numbers[name] for name in names]
    for number in numbers:
        stack.site.cut(number)

    def heal() -> None:
        for number in numbers:
            stack.site.heal(number)

    return heal
