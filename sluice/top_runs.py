# SPDX-License-Identifier: Apache-2.0
"""The runs in folders, live in the terminal: progress, time left, and the figures so far."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from sluice.policy.errors import SluiceError
from sluice.runs.folder import RUN, Entry, describe, entries
from sluice.runs.progress_file import RUNNING
from sluice.terminal import about, console, partial_table

EVERY_S = 0.5
MOST_SHOWN = 20


def watch_runs(folders: Sequence[Path], *, once: bool) -> int:
    """Draw until no run is left or Ctrl-C, or print one picture. Raises SluiceError if the folders hold no run."""
    if not _found(folders):
        listed = ", ".join(map(str, folders))
        raise SluiceError(f"{listed}: no run and no sweep is there; give the --out of `sluice run`")
    if once:
        console.print(picture(folders))
        return 0
    with Live(picture(folders), console=console, auto_refresh=False) as live:
        try:
            while any(run["state"] == RUNNING for run in _runs(folders)):
                time.sleep(EVERY_S)
                live.update(picture(folders), refresh=True)
        except KeyboardInterrupt:
            return 0
    return 0


def picture(folders: Sequence[Path]) -> RenderableType:
    """Return the runs that are under way; the newest others as lines."""
    runs = _runs(folders)
    running = [run for run in runs if run["state"] == RUNNING]
    others = [run for run in runs if run["state"] != RUNNING]
    parts: list[RenderableType] = [part for run in running for part in _parts(run)]
    return Group(*parts, *(Text(_line(run)) for run in others[: max(0, MOST_SHOWN - len(running))]))


def _found(folders: Sequence[Path]) -> list[Entry]:
    return [entry for folder in folders for entry in entries(folder)]


def _runs(folders: Sequence[Path]) -> list[dict[str, Any]]:
    return [{**describe(entry), "folder": str(entry.path)} for entry in _found(folders)]


def _parts(run: Mapping[str, Any]) -> list[RenderableType]:
    progress = run["progress"]
    left = progress["remaining_s"]
    said = f"{about(left)} left" if left is not None else "time left still unknown"
    what = "flows" if run["kind"] == RUN else "points"
    head = Text(
        f"{run['folder']}: {', '.join(run['schemes'])} on the {run['on']}, {progress['share']:.0%}, "
        f"{progress['recorded']}/{progress['scheduled']} {what}, {said}",
        style="bold",
    )
    return [head, partial_table(run["figures"], "so far")] if run["figures"] else [head]


def _line(run: Mapping[str, Any]) -> str:
    reason = f": {run['reason']}" if run["reason"] else ""
    if run["points"] is not None:
        return f"{run['folder']}: sweep, {run['finished']} of {run['points']} points done{reason}"
    if run["kind"] != RUN:
        return f"{run['folder']}: sweep on the {run['on']}, not begun{reason}"
    return f"{run['folder']}: {run['schemes'][0]} on the {run['on']}, {run['state']}{reason}"
