# SPDX-License-Identifier: Apache-2.0
"""Virtual machines with Debian's kernels (tools/guest)."""

import os
import subprocess
from pathlib import Path

from sluice.runtime.process import die_with_parent

TOOL = str(Path(__file__).parents[2] / "tools" / "guest")
SERIES = ("6.1", "6.12")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sluice" / "kernels"


def obstacle(series: str) -> str:
    """Return why no guest with this kernel can run here; empty if one can."""
    return subprocess.run([TOOL, "check", series], capture_output=True, text=True, check=False).stderr.strip()


def run_in_guest(
    series: str, folder: Path, command: list[str], *, timeout_s: float, system: Path | None = None
) -> str:
    """Run a command in a guest, which writes into this folder, and return its output.

    With `system`, systemd starts it on the Debian system in that folder. A guest that does not end in time is killed.
    """
    action = ["run", series, str(folder)] if system is None else ["boot", series, str(folder), str(system)]
    ended = subprocess.run(
        [TOOL, *action, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
        preexec_fn=die_with_parent,
    )
    return ended.stdout
