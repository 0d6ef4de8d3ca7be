# SPDX-License-Identifier: Apache-2.0
"""The functions to which a run passes its results while it lasts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

OUTCOMES = ("finished", "killed", "ended", "unfinished")
"""Names of the fabric's outcomes. `ended`: an endless flow reached its end. `killed`: DATCP or PDQ quenched it."""
PHASES = ("sending", "suspended", "killed")
"""Names of a connection's phases (laws/control.h)."""

Columns = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class SimulationProgress:
    """The progress of a run."""

    simulated_s: float
    ended: int
    scheduled: int
    """Flows that were drawn so far."""


@dataclass(frozen=True)
class ThresholdsMoved:
    """The thresholds of a port from a time on."""

    at_s: float
    port: str
    thresholds_bytes: tuple[int, ...]
    flows: int
    """Completed flows from which they were computed; 0: the port's first thresholds."""


def _ignore(*anything: object) -> None:
    pass


@dataclass
class Taps:
    """One function for each kind of event. A run skips those that are not given."""

    flows: Callable[[Columns], None]
    """Flows that have ended: the columns of the schedule (policy.workload.FlowBatch), and `number`, `control` (the name
    of their own congestion control, or empty), `outcome`, `fct_ps`, `delivered_bytes`, `retransmissions` and
    `timeouts`."""
    thresholds: Callable[[ThresholdsMoved], None] = _ignore
    senders: Callable[[float, Columns], None] = _ignore
    """At each sample: the time in seconds, and the state of every active connection."""
    ports: Callable[[float, Columns], None] = _ignore
    """At each sample of switch ports: the time in seconds, and columns. `port`: its id. `waiting_bytes`: without the
    packet that it is sending. So far: `sent_bytes`, `sent_packets`, `marked_packets` and `dropped_packets`."""
    trace: Callable[[Columns], None] = _ignore
    """Rows of a trace in the order of time: `at_s`, the names of `event`, `packet` and `port` (a window has neither of
    the last two), and the other columns of `trace.ROW`."""
    report: Callable[[SimulationProgress], None] = _ignore


def no_results(numbers: npt.NDArray[np.uint64]) -> Columns:
    """Results of flows that never started, as the fabric would give them."""
    nothing = np.zeros(len(numbers), np.int64)
    columns = dict.fromkeys(("fct_ps", "delivered_bytes", "retransmissions", "timeouts"), nothing)
    return {"id": numbers, **columns, "outcome": nothing + OUTCOMES.index("unfinished")}
