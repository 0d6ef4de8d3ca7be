# SPDX-License-Identifier: Apache-2.0
"""The documents of a bundle that a report needs. SluiceError names a file that is damaged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sluice.policy.errors import SluiceError
from sluice.runs.bundle import POLICIES, PORT_COLUMNS

DOCUMENTS = ("scenario", "meta", "summary")
FLOWS, PORTS = "flows.parquet", "ports.parquet"
FILES = (*(f"{name}.json" for name in DOCUMENTS), FLOWS)
"""The files that make a folder a bundle."""
FIGURES = ("fct_us", "slowdown", "deadlines", "retransmissions", "unfinished", "valid")
"""The keys of a summary that a report needs."""
COLUMNS = (
    "bytes",
    "size_class",
    "started_at",
    "fct_us",
    "slowdown",
    "deadline_us",
    "met",
    "retransmissions",
    "scheme",
)
"""The columns of flows.parquet that a report needs."""


@dataclass(frozen=True)
class Documents:
    """The documents of one bundle."""

    scenario: Mapping[str, Any]
    meta: Mapping[str, Any]
    summary: Mapping[str, Any]
    policies: Mapping[int, Mapping[str, Any]]
    """Version → the policy with all its fields. Empty in a bundle without policies.json."""


def read_bundle(bundle: Path) -> Documents:
    """Return the documents, and check that the tables can be read."""
    scenario, meta, summary = (_document(bundle / f"{name}.json", dict) for name in DOCUMENTS)
    _need(bundle / "scenario.json", scenario, ("name", "scheme", "workload"))
    _need(bundle / "scenario.json", scenario["scheme"], ("name",))
    _need(bundle / "summary.json", summary, FIGURES)
    _need(bundle / FLOWS, _columns(bundle / FLOWS), COLUMNS)
    if (bundle / PORTS).exists():
        _need(bundle / PORTS, _columns(bundle / PORTS), [column.name for column in PORT_COLUMNS])
    return Documents(scenario, meta, summary, _policies(bundle / POLICIES))


def _policies(path: Path) -> dict[int, Mapping[str, Any]]:
    if not path.exists():
        return {}
    rows = _document(path, list)
    for row in rows:
        _need(path, row, ("version", "policy"))
        _need(path, row["policy"], ("scheme",))
    return {row["version"]: row["policy"] for row in rows}


def _document(path: Path, kind: type) -> Any:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from None
    if not isinstance(found, kind):
        raise _damaged(path, f"it must be a {kind.__name__}")
    return found


def _columns(path: Path) -> Sequence[str]:
    try:
        return list(pq.read_schema(path).names)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, str(error)) from None


def _need(path: Path, found: object, keys: Sequence[str]) -> None:
    lacking = [key for key in keys if not isinstance(found, Mapping | list) or key not in found]
    if lacking:
        raise _damaged(path, f"it lacks {', '.join(lacking)}")


def _damaged(path: Path, why: str) -> SluiceError:
    return SluiceError(f"{path}: cannot be used: {why}; run the scenario again, or give another folder")
