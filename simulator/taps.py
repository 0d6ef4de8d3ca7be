# SPDX-License-Identifier: Apache-2.0
"""What a simulated run hands out while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

OUTCOMES = ("finished", "killed", "ended", "unfinished")
"""Names of the fabric's outcomes: `ended` is an endless flow whose time is over, `killed` one that DATCP quenched."""
PHASES = ("sending", "suspended", "killed")
"""Names of a sender's phases (laws/control.h)."""

Columns = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class SimulationProgress:
    """How far a run is."""

    simulated_s: float
    ended: int
    scheduled: int
    """Flows; grows while the schedule is drawn."""


@dataclass(frozen=True)
class ThresholdsMoved:
    """A port's thresholds from a time on."""

    at_s: float
    port: str
    thresholds_bytes: tuple[int, ...]
    flows: int
    """Completed flows that they were worked out from; 0: where the port starts."""


def _ignore(*anything: object) -> None:
    pass


@dataclass
class Taps:
    """One function for each kind of thing; those that are not given are not asked for."""

    flows: Callable[[Columns], None]
    """Flows that have ended: the schedule's columns (policy.workload.FlowBatch) with `number`, `outcome`, `fct_ps`,
    `delivered_bytes`, `retransmissions`, `timeouts`."""
    thresholds: Callable[[ThresholdsMoved], None] = _ignore
    senders: Callable[[float, Columns], None] = _ignore
    """At each sample, with its time in seconds: what every sender under way says of itself."""
    report: Callable[[SimulationProgress], None] = _ignore


def no_results(numbers: npt.NDArray[np.uint64], outcome: str) -> Columns:
    """What the fabric would say of flows that never began."""
    nothing = np.zeros(len(numbers), np.int64)
    columns = dict.fromkeys(("fct_ps", "delivered_bytes", "retransmissions", "timeouts"), nothing)
    return {"id": numbers, **columns, "outcome": nothing + OUTCOMES.index(outcome)}
