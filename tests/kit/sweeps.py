# SPDX-License-Identifier: Apache-2.0
"""Small sweeps on the simulator, as a user starts them."""

from __future__ import annotations

import sys
from pathlib import Path

PATIENCE_S = 300.0

SCENARIO = """
name = "small"
[fabric]
topology = "single"
hosts = 4
host_rate = "1Gbit"
buffer = "360KB"
[scheme]
name = "dctcp"
[workload]
sizes = "web-search"
pattern = "all-to-all"
load = 0.5
flows = {flows}
[deadlines]
share = 0.3
"""


def write_scenario(folder: Path, *, flows: int = 60) -> Path:
    """Write the scenario with so many flows into a folder, and return its path."""
    path = folder / "small.toml"
    path.write_text(SCENARIO.format(flows=flows))
    return path


def sluice(*arguments: object) -> list[str]:
    """The words of a command of Sluice."""
    return [sys.executable, "-m", "sluice", *map(str, arguments)]


def processes_in(folder: Path, module: str = "") -> list[int]:
    """Return every process whose command line names the folder, and this module."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            argv = (process / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(folder).encode() in argv and module.encode() in argv:
            found.append(int(process.name))
    return found
