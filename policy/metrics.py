# SPDX-License-Identifier: Apache-2.0
"""What a run is judged by: FCT and slowdown by size class, deadline misses, unfinished flows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from policy.records import SCHEDULED, SIZE_CLASSES, UNFINISHED, WATCHED, FlowRecord


def distribution(values: Sequence[float]) -> dict[str, float | int | None]:
    """n, mean, median, 95th and 99th percentile; None where there is nothing."""
    if not len(values):
        return {"n": 0, "mean": None, "p50": None, "p95": None, "p99": None}
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return {
        "n": len(values),
        "mean": float(np.mean(values)),
        "p50": float(p50),
        "p95": float(p95),
        "p99": float(p99),
    }


def summarise(records: Iterable[FlowRecord]) -> dict[str, Any]:
    """The figures of a run's summary.json (without its validity), of the scheduled flows among the records."""
    flows = [record for record in records if record.source == SCHEDULED]
    with_deadline = [flow for flow in flows if flow.deadline_us is not None]
    missed = sum(not flow.met for flow in with_deadline)
    return {
        "fct_us": _by_class(flows, lambda flow: flow.fct_us),
        "slowdown": _by_class(flows, lambda flow: flow.slowdown),
        "deadlines": {
            "n": len(with_deadline),
            "missed": missed,
            "miss_ratio": missed / len(with_deadline) if with_deadline else None,
        },
        "retransmissions": sum(flow.retransmissions or 0 for flow in flows),
        "unfinished": sum(flow.status == UNFINISHED for flow in flows),
    }


def summarise_watched(records: Iterable[FlowRecord]) -> dict[str, Any]:
    """What other programs' connections carried beside a run."""
    flows = [record for record in records if record.source == WATCHED]
    return {
        "n": len(flows),
        "bytes": sum(flow.bytes for flow in flows),
        "retransmissions": sum(flow.retransmissions or 0 for flow in flows),
        "unfinished": sum(flow.status == UNFINISHED for flow in flows),
        "deadlines": sum(flow.met is not None for flow in flows),
        "missed": sum(flow.met is False for flow in flows),
    }


def _by_class(
    flows: Sequence[FlowRecord], value: Callable[[FlowRecord], float | None]
) -> dict[str, dict[str, float | int | None]]:
    groups: dict[str, list[float]] = {name: [] for name in ("all", *SIZE_CLASSES)}
    for flow in flows:
        measured = value(flow)
        if measured is not None:
            groups["all"].append(measured)
            groups[flow.size_class].append(measured)
    return {name: distribution(values) for name, values in groups.items()}
