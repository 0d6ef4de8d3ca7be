# SPDX-License-Identifier: Apache-2.0
"""Turns ended flows of the simulator, with the columns of their schedule, into rows of flows.parquet or records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sluice.policy.figures.metrics import size_classes
from sluice.policy.network.graph import Topology
from sluice.policy.units import PS_PER_US
from sluice.policy.wire.records import BACKGROUND, FINISHED, SCHEDULED, SIZE_CLASSES, UNFINISHED, FlowRecord
from sluice.runs.bundle import FLOWS_SCHEMA
from sluice.simulator.taps import OUTCOMES

REASONS = {"killed": "quenched", "unfinished": "unfinished at the end of the grace period"}

Texts = npt.NDArray[np.str_]


def flow_rows(
    columns: Mapping[str, Any],
    topology: Topology,
    run_id: str,
    *,
    size_scale: float,
    schemes: Texts,
    controls: Texts,
) -> pa.Table:
    """Return the flows that have ended as rows of flows.parquet, from the fabric's columns and the schedule.

    `schemes` and `controls` hold each flow's scheme and TCP_CONGESTION name.
    """
    finished = columns["outcome"] == OUTCOMES.index("finished")
    endless = ~np.isnan(columns["until_s"])
    fct_us = np.where(finished, columns["fct_ps"] / PS_PER_US, np.nan)
    fct_us = np.where(endless, columns["fct_ps"] / PS_PER_US, fct_us)
    ideal_us = np.where(endless, np.nan, columns["ideal_us"])
    deadline_us = np.where(endless, np.nan, columns["deadline_us"])
    size_bytes = np.where(endless, columns["delivered_bytes"], columns["bytes"])
    hosts = np.asarray([host.name for host in topology.hosts])
    return pa.table(
        {
            "id": [f"{run_id}/{number}" for number in columns["number"]],
            "src": hosts[columns["src"]],
            "dst": hosts[columns["dst"]],
            "bytes": size_bytes,
            "size_class": np.asarray(SIZE_CLASSES)[size_classes(size_bytes, size_scale)],
            "started_at": columns["start_s"],
            "fct_us": pa.array(fct_us, from_pandas=True),
            "ideal_us": pa.array(ideal_us, from_pandas=True),
            "deadline_us": pa.array(deadline_us, from_pandas=True),
            "met": pa.array(fct_us <= deadline_us, mask=np.isnan(deadline_us)),
            "retransmissions": columns["retransmissions"].astype(np.int64),
            "congestion_control": controls,
            "scheme": schemes,
            "status": np.where(finished | endless, FINISHED, UNFINISHED),
            "reason": np.asarray([REASONS.get(name, "") for name in OUTCOMES])[columns["outcome"]],
            "source": np.where(endless, BACKGROUND, SCHEDULED),
            "slowdown": pa.array(fct_us / ideal_us, from_pandas=True),
        },
        schema=FLOWS_SCHEMA,
    )


def records(rows: pa.Table) -> list[FlowRecord]:
    """Return rows of flows.parquet as records, as agents deliver them."""
    return [FlowRecord(**row) for row in rows.drop_columns(["slowdown"]).to_pylist()]
