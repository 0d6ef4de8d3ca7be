# SPDX-License-Identifier: Apache-2.0
"""The import rule: who may know whom. docs/ARCHITECTURE.md says why."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ALLOWED: dict[str, set[str]] = {
    "policy": set(),
    "runtime": {"policy"},
    "dataplane": {"policy", "runtime"},
    "store": {"policy", "runtime"},
    "controller": {"policy", "store", "runtime"},
    "hostagent": {"policy", "runtime", "dataplane"},
    "topologies": {"policy", "runtime", "dataplane"},
    "webui": {"policy", "store", "runtime"},
}
EVERY_ROOM = {*ALLOWED, "simulator"}
ALLOWED["simulator"] = {"policy"}
ALLOWED["sluice"] = EVERY_ROOM
ALLOWED["experiments"] = {*EVERY_ROOM, "sluice"}
PURE = {"socket", "subprocess", "os", "time", "random", "pathlib", "io", "asyncio", "threading", "logging"}


def imported_modules(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_it_may(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    for path in files:
        ours = imported_modules(path) & set(ALLOWED) - {package}
        assert ours <= ALLOWED[package], f"{path.relative_to(ROOT)} imports {sorted(ours - ALLOWED[package])}"


def test_policy_has_no_io_clock_or_randomness_of_its_own():
    allowed_libraries = {"numpy", "scipy"}
    for path in sorted((ROOT / "policy").rglob("*.py")):
        modules = imported_modules(path)
        assert not modules & PURE, f"{path.relative_to(ROOT)} imports {sorted(modules & PURE)}"
        foreign = {m for m in modules if m not in sys.stdlib_module_names} - {"policy"}
        assert foreign <= allowed_libraries, f"{path.relative_to(ROOT)} imports {sorted(foreign)}"
