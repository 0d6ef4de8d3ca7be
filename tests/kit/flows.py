# SPDX-License-Identifier: Apache-2.0
"""Scheduled flows and records for tests."""

import json

import numpy as np
import numpy.typing as npt

from sluice.hostagent.records import unfinished
from sluice.hostagent.spool import Spool
from sluice.policy.thresholds.online import DelayModel, EdgeIndices, delay_terms
from sluice.policy.wire.records import FlowRecord, Schedule, ScheduledFlow


def flow(
    number: int, start_s: float = 0.0, size_bytes: int = 10_000, deadline_us: float | None = None
) -> ScheduledFlow:
    return ScheduledFlow(f"run/{number}", start_s, "h1", "h2", size_bytes, "small", 1000.0, deadline_us)


def schedule(*flows: ScheduledFlow, persistent: bool = False) -> Schedule:
    connections = "persistent" if persistent else "new"
    return Schedule("dctcp", connections, addresses={"h2": "127.0.0.1"}, flows=tuple(flows))


def record(number: int, reason: str = "test") -> FlowRecord:
    return unfinished(flow(number), reason, started_at=1.0, scheme="dctcp", congestion_control="cubic")


def drain(spool: Spool) -> list[str]:
    """Deliver everything. Returns the ids in order."""
    ids = []
    while batch := spool.next_batch():
        ids += [FlowRecord.from_document(json.loads(line)).id for line in batch.lines]
        spool.acknowledge(batch)
    return ids


def mean_slowdown(model: DelayModel, thresholds: EdgeIndices) -> npt.NDArray[np.float64]:
    """Return the mean slowdown of each port with these thresholds."""
    return delay_terms(model, thresholds.shape[1] + 1).cost(thresholds)
