# SPDX-License-Identifier: Apache-2.0
"""Scenario and distribution files: reading what `policy` checks."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from policy.errors import FieldError, SluiceError
from policy.scenario import Scenario, scenario_from_document
from policy.workload import SizeCdf, parse_cdf

HERE = Path(__file__).parent
WORKLOADS = HERE / "workloads"
SCENARIOS = HERE / "scenarios"


def load_cdf(name: str) -> SizeCdf:
    """A distribution by the name of a file in experiments/workloads, or by path."""
    path = Path(name) if name.endswith(".cdf") else WORKLOADS / f"{name}.cdf"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in WORKLOADS.glob("*.cdf")))
        raise FieldError(
            "workload.sizes",
            f"there is no file {path}; known names: {known}, or give the path of a .cdf file",
        )
    return parse_cdf(str(path), path.read_text())


def read_document(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; `path` may also be the bare name of a file in experiments/scenarios."""
    if not path.suffix and not path.exists():
        path = SCENARIOS / f"{path.name}.toml"
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        known = ", ".join(sorted(p.stem for p in SCENARIOS.glob("*.toml")))
        raise SluiceError(f"{path}: no such file; scenarios that come along: {known}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SluiceError(f"{path}: not TOML: {error}") from None


def scenario_from_file(path: Path) -> tuple[Scenario, dict[str, Any]]:
    """A checked scenario and the document it came from. Errors name the file and the key."""
    document = read_document(path)
    try:
        return scenario_from_document(document, load_cdf), document
    except FieldError as error:
        raise SluiceError(f"{path}: {error}") from None


def scenario_with(document: Mapping[str, Any], **tables: Any) -> tuple[Scenario, dict[str, Any]]:
    """The same scenario with keys changed: tables merge key by key, plain values replace.

    A changed scheme name replaces its whole table: one scheme's settings mean nothing to another.
    """
    merged: dict[str, Any] = {key: dict(v) if isinstance(v, Mapping) else v for key, v in document.items()}
    for key, value in tables.items():
        if isinstance(value, Mapping) and not (key == "scheme" and "name" in value):
            merged[key] = {**merged.get(key, {}), **value}
        else:
            merged[key] = value
    return scenario_from_document(merged, load_cdf), merged
