# SPDX-License-Identifier: Apache-2.0
"""The pages with generated tables among written text: rooms of the house, experiments."""

import tomllib
from pathlib import Path

from experiments.__main__ import load_all
from experiments.kit.main import README
from experiments.kit.main import table as experiments_table
from tools.reference.markdown import between, code, table

ROOT = Path(__file__).parents[2]
ARCHITECTURE = ROOT / "docs" / "explanation" / "architecture.md"
_MANY = 3


def architecture_page() -> str:
    """The architecture page with the table as docs/rooms.toml has it now."""
    rooms = tomllib.loads((ROOT / "docs" / "rooms.toml").read_text())
    rows = []
    for place, (name, room) in enumerate(rooms.items()):
        imports = ", ".join(map(code, room["imports"])) or "nothing"
        if room["imports"] == list(rooms)[:place] and place > _MANY:
            imports = "all rooms above"
        starts = ", ".join(map(code, room["starts"])) or "nothing"
        rows.append((code(f"{name}/"), room["what"], imports, starts))
    return between(
        ARCHITECTURE.read_text(), "rooms", table(("room", "what", "may import", "starts processes of"), rows)
    )


def experiments_page() -> str:
    """The page of all experiments with the table as they describe themselves now."""
    return between(README.read_text(), "experiments", experiments_table(load_all()))
