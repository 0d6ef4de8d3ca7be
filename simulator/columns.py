# SPDX-License-Identifier: Apache-2.0
"""A batch of the schedule as the columns that the C++ core takes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sluice.policy.units import PS_PER_S, PS_PER_US
from sluice.policy.workload.flows import FlowBatch
from sluice.simulator.taps import Columns


def fabric_columns(batch: FlowBatch) -> Columns:
    """A batch as `Fabric.add_flows` takes it: whole picoseconds, 0 for missing values."""
    start_ps = np.rint(batch.start_s * PS_PER_S).astype(np.int64)
    elapsed_ps = _or_zero(batch.elapsed_us * PS_PER_US)
    deadline_ps = np.where(np.isnan(batch.deadline_us), 0, start_ps + _or_zero(batch.deadline_us * PS_PER_US))
    numbers = np.arange(batch.first, batch.first + len(start_ps), dtype=np.uint64)
    return {
        "id": numbers,
        "bytes": batch.bytes.astype(np.uint64),
        "start_ps": start_ps,
        "began_ps": start_ps - elapsed_ps,
        "deadline_ps": deadline_ps,
        "until_ps": _or_zero(batch.until_s * PS_PER_S),
        "source": batch.src.astype(np.uint16),
        "sink": batch.dst.astype(np.uint16),
        "size_known": batch.size_known.astype(np.uint8),
        "on_quench": batch.quench.astype(np.uint8),
        "importance_milli": _or_zero(batch.importance * 1000).astype(np.uint32),
        "importance_share_milli": _or_zero(batch.importance_share * 1000).astype(np.uint32),
    }


def _or_zero(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    return np.rint(np.nan_to_num(values)).astype(np.int64)
