# SPDX-License-Identifier: Apache-2.0
"""The result bundle: a folder that says what was run, on what, and what came out.

scenario.json    the resolved scenario          flows.parquet   one row a flow
meta.json        versions, kernel, git, seed    ports.parquet   thresholds and queue counters over time
summary.json     FCT, slowdown, deadlines, validity; totals of other programs' connections, apart
samples.parquet  how every flow under way fared over time, where the scenario asks for it
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from policy.metrics import summarise, summarise_watched
from policy.records import FlowRecord
from store.observed import PortSample, ThresholdChange

_LIBRARIES = ("os-ken", "numpy", "sqlalchemy", "pyroute2")

_PORTS_SCHEMA = pa.schema(
    [
        ("at", pa.float64()),
        ("port", pa.string()),
        ("kind", pa.string()),
        ("policy_version", pa.int64()),
        ("thresholds_bytes", pa.list_(pa.int64())),
        ("flows", pa.int64()),
        ("queue_bytes", pa.list_(pa.int64())),
        ("queue_packets", pa.list_(pa.int64())),
    ]
)

_FLOWS_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("src", pa.string()),
        ("dst", pa.string()),
        ("bytes", pa.int64()),
        ("size_class", pa.string()),
        ("started_at", pa.float64()),
        ("fct_us", pa.float64()),
        ("ideal_us", pa.float64()),
        ("deadline_us", pa.float64()),
        ("met", pa.bool_()),
        ("retransmissions", pa.int64()),
        ("congestion_control", pa.string()),
        ("scheme", pa.string()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("source", pa.string()),
        ("slowdown", pa.float64()),
    ]
)


_SAMPLES_SCHEMA = pa.schema(
    [
        ("at_s", pa.float64()),
        ("flow", pa.string()),
        ("label", pa.string()),
        ("acked_bytes", pa.int64()),
        ("cwnd", pa.int64()),
        ("srtt_us", pa.int64()),
        ("under_way", pa.int64()),
        ("retransmissions", pa.int64()),
        ("phase", pa.string()),
        ("windows", pa.int64()),
        ("rate_bytes_per_s", pa.int64()),
        ("wanted_bytes_per_s", pa.int64()),
        ("alpha", pa.float64()),
        ("urgency", pa.float64()),
        ("precedence", pa.float64()),
        ("decrease", pa.float64()),
        ("cuts", pa.int64()),
        ("quenches", pa.int64()),
        ("resumes", pa.int64()),
    ]
)
"""Columns after `retransmissions` are null where the kernel was not told of the flow (dataplane/include/sluice.h)."""


def machine_meta(seed: int) -> dict[str, Any]:
    """What the result depends on beside the scenario."""
    return {
        "sluice": importlib.metadata.version("sluice"),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "openvswitch": _first_line(["ovs-vswitchd", "--version"]),
        "libraries": {name: importlib.metadata.version(name) for name in _LIBRARIES},
        "git": _git_state(),
        "seed": seed,
        "written_at": time.time(),
    }


def write_bundle(
    out: Path,
    *,
    scenario: Mapping[str, Any],
    meta: Mapping[str, Any],
    flows: Sequence[FlowRecord],
    thresholds: Sequence[ThresholdChange],
    samples: Sequence[PortSample],
    validity_reasons: Sequence[str],
    flow_samples: Sequence[Mapping[str, Any]] | None = None,
    watched: Sequence[FlowRecord] = (),
) -> dict[str, Any]:
    """Write every file of the bundle and return the summary. summary.json comes last: a folder with it is complete."""
    out.mkdir(parents=True, exist_ok=True)
    _write_json(out / "scenario.json", scenario)
    _write_json(out / "meta.json", meta)
    rows = [{**record.to_document(), "slowdown": record.slowdown} for record in flows]
    pq.write_table(pa.Table.from_pylist(rows, schema=_FLOWS_SCHEMA), out / "flows.parquet")
    ports = [{"kind": "thresholds", **vars(change)} for change in thresholds]
    ports += [{"kind": "queues", **vars(sample)} for sample in samples]
    pq.write_table(pa.Table.from_pylist(ports, schema=_PORTS_SCHEMA), out / "ports.parquet")
    if flow_samples is not None:
        pq.write_table(
            pa.Table.from_pylist(list(flow_samples), schema=_SAMPLES_SCHEMA), out / "samples.parquet"
        )
    valid = {"ok": not validity_reasons, "reasons": list(validity_reasons)}
    summary = {**summarise(flows), "watched": summarise_watched(watched), "valid": valid}
    _write_json(out / "summary.json", summary)
    return summary


def is_complete(bundle: Path, scenario: Mapping[str, Any]) -> bool:
    """Is a finished run of that very scenario there?"""
    if not (bundle / "summary.json").exists():
        return False
    return bool(json.loads((bundle / "scenario.json").read_text()) == json.loads(json.dumps(scenario)))


def read_flows(bundle: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(bundle / "flows.parquet").to_pylist()
    return rows


def read_samples(bundle: Path) -> list[dict[str, Any]]:
    """How the flows fared, in the order of time."""
    rows: list[dict[str, Any]] = pq.read_table(bundle / "samples.parquet").to_pylist()
    return rows


def read_ports(bundle: Path, kind: str) -> list[dict[str, Any]]:
    """Rows of ports.parquet of one kind, "thresholds" or "queues", in the order of time."""
    rows = pq.read_table(bundle / "ports.parquet", filters=[("kind", "=", kind)]).to_pylist()
    return sorted(rows, key=lambda row: row["at"])


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, default=str) + "\n")


def _first_line(argv: list[str]) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.partition("\n")[0]
    except FileNotFoundError:
        return "not installed"


def _git_state() -> dict[str, Any]:
    here = Path(__file__).parent
    commit = _first_line(["git", "-C", str(here), "rev-parse", "HEAD"])
    dirty = bool(_first_line(["git", "-C", str(here), "status", "--porcelain"]))
    return {"commit": commit or None, "dirty": dirty}
