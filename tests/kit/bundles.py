# SPDX-License-Identifier: Apache-2.0
"""Bundles with known flows, for tests of the code that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sluice.policy.wire.records import FINISHED, UNFINISHED, FlowRecord, size_class
from sluice.runs.bundle import write_bundle

DOCUMENT: dict[str, Any] = {
    "name": "small",
    "fabric": {"topology": "single", "hosts": 4, "host_rate": "1Gbit"},
    "workload": {"sizes": "web-search", "load": 0.5, "flows": 300},
}


def document(
    scheme: str | dict[str, Any] = "dctcp", seed: int = 1, load: float = 0.5, **tables: Any
) -> dict[str, Any]:
    """Return a resolved scenario."""
    merged = {
        **DOCUMENT,
        "seed": seed,
        "scheme": {"name": scheme} if isinstance(scheme, str) else scheme,
        **tables,
    }
    return {**merged, "workload": {**DOCUMENT["workload"], "load": load, **tables.get("workload", {})}}


def flow(
    number: int,
    size_bytes: int,
    fct_us: float | None,
    *,
    scheme: str = "dctcp",
    deadline_us: float | None = None,
) -> FlowRecord:
    """Return a flow that finished, unless it has no FCT. Alone it would take 10 ns a byte."""
    met = None if deadline_us is None else fct_us is not None and fct_us <= deadline_us
    return FlowRecord(
        id=f"r/{number}",
        src="h1",
        dst="h2",
        bytes=size_bytes,
        size_class=size_class(size_bytes),
        started_at=float(number),
        fct_us=fct_us,
        ideal_us=size_bytes / 100,
        deadline_us=deadline_us,
        met=met,
        retransmissions=0,
        congestion_control="sluice_dctcp",
        scheme=scheme,
        status=UNFINISHED if fct_us is None else FINISHED,
    )


def random_flows(seed: int, slower: float = 1.0, flows: int = 300, **fixed: Any) -> list[FlowRecord]:
    """Return flows with sizes over five decades, each up to ten times as slow as alone."""
    rng = np.random.default_rng(seed)
    sizes = (10 ** rng.uniform(3, 8, flows)).astype(int)
    delays = sizes / 100 * (1 + rng.exponential(2.0, flows)) * slower
    return [flow(i, int(s), float(d), **fixed) for i, (s, d) in enumerate(zip(sizes, delays, strict=True))]


def bundle(
    folder: Path,
    scenario: dict[str, Any],
    flows: Sequence[FlowRecord],
    *,
    reasons: Sequence[str] = (),
    on: str = "simulator",
) -> Path:
    """Write a bundle as a run does."""
    meta = {"sluice": "0.1.0", "on": on, "git": {"commit": "0123456789abcdef", "dirty": False}}
    write_bundle(
        folder, scenario=scenario, meta=meta, flows=flows, thresholds=[], samples=[], validity_reasons=reasons
    )
    return folder


def sweep(folder: Path, schemes: Sequence[str], loads: Sequence[float], seeds: Sequence[int]) -> Path:
    """Write a sweep's folder. Each later scheme is twice as slow as the one before."""
    for order, scheme in enumerate(schemes):
        for load in loads:
            for seed in seeds:
                flows = random_flows(seed, slower=2.0**order, scheme=scheme, deadline_us=50_000.0)
                name = f"{scheme}/load-{load:g}/seed-{seed:02d}"
                bundle(folder / name, document(scheme, seed, load), flows)
    (folder / "sweep.json").write_text('{"on": "simulator", "points": {}}')
    return folder
