# SPDX-License-Identifier: Apache-2.0
"""The table of rooms in docs/explanation/architecture.md, from docs/rooms.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tools.reference.markdown import between, code, table

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
_MANY = 3


def text() -> str:
    """The architecture page with the table as docs/rooms.toml has it now."""
    rooms = tomllib.loads((ROOT / "docs" / "rooms.toml").read_text())
    rows = [
        (
            code(f"{name}/"),
            room["what"],
            _imports(room["imports"], list(rooms)[:place]),
            ", ".join(map(code, room["starts"])) or "nothing",
        )
        for place, (name, room) in enumerate(rooms.items())
    ]
    return between(
        PAGE.read_text(), "rooms", table(("room", "what", "may import", "starts processes of"), rows)
    )


def _imports(imported: list[str], rooms_above: list[str]) -> str:
    if imported == rooms_above and len(imported) > _MANY:
        return "all rooms above"
    return ", ".join(map(code, imported)) or "nothing"
