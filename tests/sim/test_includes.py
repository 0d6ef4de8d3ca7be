# SPDX-License-Identifier: Apache-2.0
"""The include rule of the C++ core. The table in simulator/core/README.md says which folder may include which."""

import re
from pathlib import Path

from tests.sim.bottleneck import CORE

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
ROW = re.compile(r"^\| `([a-z/]+)` \|.*\| ([^|]+) \|$", re.MULTILINE)
LAWS = CORE.parents[1] / "dataplane" / "laws"
SOURCES = sorted(CORE.rglob("*.[ch]pp"))


def allowed() -> dict[str, set[str]]:
    """Return folder → folders that it may include, in the order of the table."""
    table = (CORE / "README.md").read_text().partition("\n\n## ")[0]
    return {folder: set(re.findall(r"`([a-z/]+)`", others)) for folder, others in ROW.findall(table)}


def folder_of(path: Path) -> str:
    return str(path.parent.relative_to(CORE))


def room(folder: str) -> str:
    return folder.partition("/")[0]


def test_table__no_room_includes_a_later_one() -> None:
    """A folder may include only earlier ones, so no two include each other. The folders of
    `transport` count as one."""
    rooms = list(dict.fromkeys(map(room, allowed())))
    for folder, others in allowed().items():
        for other in others - {"laws"}:
            assert rooms.index(room(other)) <= rooms.index(room(folder)), f"{folder} may include {other}"


def test_table__its_permissions_are_those_that_the_sources_use() -> None:
    used: dict[str, set[str]] = {}
    for path in SOURCES:
        includes = INCLUDE.findall(path.read_text())
        for include in includes:
            root = LAWS.parent if include.startswith("laws/") else CORE
            assert root.joinpath(include).exists(), f"{path}: write {include} from the root"
        others = {str(Path(include).parent) for include in includes} - {folder_of(path)}
        used.setdefault(folder_of(path), set()).update(others)
    assert used == allowed()
