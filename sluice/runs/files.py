# SPDX-License-Identifier: Apache-2.0
"""Scenario and distribution files: reading what `policy` checks."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from policy.errors import FieldError, SluiceError
from policy.scenario import Scenario, scenario_from_document
from policy.sizes import SizeCdf, parse_cdf
from policy.traces import Trace, parse_trace
from topologies import build_topology

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
WORKLOADS = EXPERIMENTS / "workloads"
SCENARIOS = EXPERIMENTS / "scenarios"

Parsed = TypeVar("Parsed")


def load_cdf(name: str) -> SizeCdf:
    """A distribution by the name of a file in experiments/workloads, or by path."""
    path = Path(name) if name.endswith(".cdf") else WORKLOADS / f"{name}.cdf"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in WORKLOADS.glob("*.cdf")))
        raise FieldError(
            "workload.sizes",
            f"there is no file {path}; known names: {known}, or give the path of a .cdf file",
        )
    return _parsed("workload.sizes", path, parse_cdf)


def load_trace(name: str) -> Trace:
    """A trace by path."""
    path = Path(name)
    if not path.is_file():
        raise FieldError(
            "workload.trace", f'there is no file {path}: give the path of a file of "ms KB sender" lines'
        )
    return _parsed("workload.trace", path, parse_trace)


def _parsed(field: str, path: Path, parse: Callable[[str, str], Parsed]) -> Parsed:
    """What `parse` makes of a file that a scenario names; errors name the key, the file and the line."""
    try:
        return parse(str(path), path.read_text())
    except FieldError as error:
        raise FieldError(field, str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise FieldError(field, f"{path} cannot be read ({error}): give a text file") from None


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
    """A checked scenario and the document it came from, without its plan for sweeps. Errors name the file and the key.

    Checked against its topology, too: hosts that are named are there, and no link is loaded beyond what it carries.
    """
    document = {key: value for key, value in read_document(path).items() if key != "sweep"}
    try:
        scenario = scenario_from_document(document, load_cdf, load_trace)
        build_topology(scenario)
    except FieldError as error:
        raise SluiceError(f"{path}: {error}") from None
    return scenario, document


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
    return scenario_from_document(merged, load_cdf, load_trace), merged
