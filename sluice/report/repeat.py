# SPDX-License-Identifier: Apache-2.0
"""The commands that repeat a report and its runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from sluice.report.runs import Run, Variant
from sluice.runs.bundle import COMMAND

ENTRY_POINT = "entry point "
"""What the source of a plugin begins with that is installed, and so needs no option."""
NEW = "NEW"
"""A folder that the reader chooses."""


def repeat_report(folders: Sequence[Path], baseline: str | None, out: Path) -> str:
    """Return the command that makes a report again."""
    against = [] if baseline is None else ["--baseline", baseline]
    return shlex.join(["sluice", "compare", *map(str, folders), *against, "--out", str(out)])


def repeat_run(run: Run) -> str:
    """Return the command that repeats a run from the scenario in its bundle."""
    words = run.meta.get(COMMAND) or ["sluice", "run", "--on", run.on]
    files = [source for source in run.meta.get("plugins", {}) if not source.startswith(ENTRY_POINT)]
    plugins = [word for source in files for word in ("--plugin", source)]
    command, *options = words
    return shlex.join(
        [command, options[0], str(run.folder / "scenario.json"), *options[1:], *plugins, "--out", NEW]
    )


def repeat_runs(variants: Sequence[Variant]) -> list[tuple[str, int]]:
    """Return the command for the first run of each variant, and how many more runs the variant has.

    Variants of one bundle share a command.
    """
    found: dict[str, int] = {}
    for variant in variants:
        found.setdefault(repeat_run(variant.runs[0]), len(variant.runs) - 1)
    return list(found.items())
