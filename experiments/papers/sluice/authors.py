# SPDX-License-Identifier: Apache-2.0
"""PIAS's thresholds for a workload and a load: those of its authors' scripts, or the optimum of its own model."""

from __future__ import annotations

from sluice.policy.thresholds.static import pias_thresholds as optimum
from sluice.policy.units import size_bytes
from sluice.runs.files import SCENARIOS, load_cdf, read_document

SCRIPTS = {"web-search": "pias-144", "data-mining": "pias-144-data-mining"}
"""The scenarios with the authors' thresholds, by workload."""
QUEUES = 8


def pias_thresholds(workload: str, load: float) -> tuple[int, ...]:
    """Thresholds in bytes. `workload`: a name in sluice/data/workloads."""
    by_load = (
        read_document(SCENARIOS / f"{SCRIPTS[workload]}.toml")["sweep"]["scheme"]["pias"]["0"]
        if workload in SCRIPTS
        else {}
    )
    decimals = f"{load:g}".removeprefix("0.")  # TOML reads the table [pias.0.8] as the table 8 of the table 0
    if decimals not in by_load:
        return optimum(load_cdf(workload), load, QUEUES)
    return tuple(size_bytes("thresholds", text) for text in by_load[decimals]["thresholds"])
