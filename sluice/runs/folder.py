# SPDX-License-Identifier: Apache-2.0
"""The runs and sweeps in a folder, with their state and figures.

The folder may hold files of other users: no symbolic link is followed, and no file of unreasonable length is read.
"""

import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.policy.errors import FieldError, shortened
from sluice.policy.fabrics import TESTBED
from sluice.runs.bundle import INTERRUPTED
from sluice.runs.progress import FAILED, FILE, RUNNING, RunState, read_state

RUN, SWEEP = "run", "sweep"
REQUEST = "request.json"
"""Who started the run from the page of runs, and what."""
DONE, INTERRUPTED_STATE, LOST, PARTIAL = "done", "interrupted", "lost", "partial"
KILLED = "its process ended without a message (killed?); call `sluice sweep` with this folder to run the rest"
MOST_DEPTH = 6
MOST_ENTRIES = 500
MOST_FOLDERS = 20_000
MOST_BYTES = 20_000_000
MOST_NAME = 300
MOST_COMPARED = 200
"""Bundles in one report."""
_MARKS = {"sweep.json": SWEEP, "scenario.json": RUN, FILE: RUN, REQUEST: RUN}


@dataclass(frozen=True)
class Entry:
    """A run or a sweep."""

    root: Path
    name: str
    """The path below the root."""
    kind: str
    changed_at: float
    """When a file of it came or went last, in epoch seconds."""

    @property
    def path(self) -> Path:
        return self.root / self.name


def entries(root: Path) -> list[Entry]:
    """Return the runs and sweeps below a folder, the newest first. Folders inside a run or a sweep are its own."""
    below = _walk(root, "", MOST_DEPTH, [MOST_FOLDERS])
    return sorted(below, key=lambda entry: entry.changed_at, reverse=True)[:MOST_ENTRIES]


def _walk(root: Path, name: str, depth: int, budget: list[int]) -> Iterator[Entry]:
    budget[0] -= 1
    if budget[0] < 0:
        return
    try:
        with os.scandir(root / name) as listing:
            inside = [child for child in listing if not child.is_symlink()]
        entry = _entry(root, name, {child.name for child in inside if child.is_file(follow_symlinks=False)})
    except OSError:
        return
    if entry:
        yield entry
    elif depth:
        for child in inside:
            if child.is_dir(follow_symlinks=False) and not child.name.startswith("."):
                yield from _walk(root, f"{name}/{child.name}" if name else child.name, depth - 1, budget)


def _entry(root: Path, name: str, files: set[str]) -> Entry | None:
    kind = next((kind for mark, kind in _MARKS.items() if mark in files), None)
    return Entry(root, name, kind, (root / name).stat().st_mtime) if kind else None


def entry_of(root: Path, name: str) -> Entry:
    """Return the run or sweep of this name. Raises FieldError, also for a name that leads out of the folder."""
    parts = name.split("/")
    wrong = FieldError("run", f"there is no run {shortened(name)} in the folder; take a name of the list")
    if len(name) > MOST_NAME or "\0" in name or any(not part or part.startswith(".") for part in parts):
        raise wrong
    path = root
    for part in parts:
        path /= part
        if not _is_real(path, stat.S_ISDIR):
            raise wrong
    entry = _entry(root, name, {mark for mark in _MARKS if _is_real(path / mark, stat.S_ISREG)})
    if entry is None:
        raise wrong
    return entry


def bundles(entry: Entry) -> list[Path]:
    """Return the bundles of a run, or of the finished points of a sweep.

    A bundle with a symbolic link among its files is left out.
    """
    from sluice.report.runs import FILES

    folders = [entry.path]
    if entry.kind == SWEEP:
        folders = []
        for path, names, _ in os.walk(entry.path, followlinks=False):
            names[:] = sorted(name for name in names if not name.startswith("."))
            below = [Path(path) / name for name in names if not (Path(path) / name).is_symlink()]
            folders += filter(_is_finished, below)
    return [folder for folder in folders if all(_is_real(folder / name, stat.S_ISREG) for name in FILES)]


def _is_finished(folder: Path) -> bool:
    """Return whether the folder holds a bundle of a run that was not interrupted."""
    return _is_real(folder / "summary.json", stat.S_ISREG) and not _mapping(
        read_plain(folder / "meta.json")
    ).get(INTERRUPTED)


def _is_real(path: Path, kind: Any) -> bool:
    """Return whether the path is of this kind and no symbolic link."""
    try:
        return bool(kind(path.lstat().st_mode))
    except OSError:
        return False


def read_plain(path: Path) -> Any:
    """Return a JSON file's document; None if it is missing, no plain file, too long or no JSON."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor) as file:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > MOST_BYTES:
                return None
            return json.load(file)
    except (OSError, ValueError, RecursionError):
        return None


# ── What is known of an entry ───────────────────────────────────────────────────────────────────────────────────────


def describe(entry: Entry) -> dict[str, Any]:
    """Return an entry as JSON. Values that no file names are null."""
    return _describe_sweep(entry) if entry.kind == SWEEP else _describe_run(entry)


def _describe_run(entry: Entry) -> dict[str, Any]:
    scenario, meta, summary, request = (
        _mapping(read_plain(entry.path / name))
        for name in ("scenario.json", "meta.json", "summary.json", REQUEST)
    )
    state = read_state(entry.path) if _is_real(entry.path / FILE, stat.S_ISREG) else None
    load = _mapping(scenario.get("workload")).get("load")
    document = _blank(entry) | {
        "kind": SWEEP if request.get("sweep") is True else RUN,  # a sweep that starts has no other file yet
        "scenario": _text(scenario.get("name") or (state.name if state else request.get("scenario"))),
        "schemes": [_text(_mapping(scenario.get("scheme")).get("name") or (state.scheme if state else ""))],
        "on": _text(meta.get("on") or (state.on if state else request.get("on")) or TESTBED),
        "load": float(load) if isinstance(load, int | float) else None,
        "by": _text(request.get("by")) or None,
    }
    if state:
        return document | {
            "state": RUNNING if state.is_alive else FAILED if state.state == FAILED else LOST,
            "reason": state.reason[:400],
            "progress": _progress(state),
            "figures": state.figures,
        }
    if not summary:
        return document | {"state": LOST}
    return document | {
        "state": INTERRUPTED_STATE if meta.get(INTERRUPTED) else DONE,
        "figures": summary_figures(summary),
        "valid": bool(_mapping(summary.get("valid")).get("ok")),
    }


def _describe_sweep(entry: Entry) -> dict[str, Any]:
    config = _mapping(read_plain(entry.path / "sweep.json"))
    points = _mapping(config.get("points"))
    finished = sum(_is_finished(entry.path / name) for name in points)
    first = _mapping(_mapping(next(iter(points.values()), None)).get("document"))
    schemes = dict.fromkeys(_text(_mapping(point).get("scheme")) for point in points.values())
    state = read_state(entry.path) if _is_real(entry.path / FILE, stat.S_ISREG) else None
    lives = state is not None and state.is_alive
    reason = ""
    if finished < len(points) and state and not lives:  # no state: someone has interrupted it
        reason = state.reason[:400] or KILLED
    return _blank(entry) | {
        "scenario": _text(first.get("name")),
        "schemes": list(schemes),
        "on": _text(config.get("on")),
        "by": _text(_mapping(read_plain(entry.path / REQUEST)).get("by")) or None,
        "state": RUNNING if lives else DONE if finished == len(points) else PARTIAL,
        "reason": reason,
        "progress": _progress(state) if state and lives else None,
        "points": len(points),
        "finished": finished,
    }


def _progress(state: RunState) -> dict[str, Any]:
    keys = ("share", "elapsed_s", "remaining_s", "recorded", "scheduled")
    return {key: getattr(state, key) for key in keys}


def _blank(entry: Entry) -> dict[str, Any]:
    nothing = ("load", "by", "progress", "figures", "valid", "points", "finished")
    known = {"name": entry.name, "kind": entry.kind, "changed_at": entry.changed_at, "reason": ""}
    return known | dict.fromkeys(nothing)


def summary_figures(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a summary.json in the form of partial figures."""
    fct, deadlines = _mapping(summary.get("fct_us")), _mapping(summary.get("deadlines"))
    return {
        "classes": {
            name: {"n": row.get("n", 0), "mean_us": row.get("mean"), "p99_us": row.get("p99")}
            for name, row in ((name, _mapping(row)) for name, row in fct.items())
        },
        "deadlines": deadlines.get("n", 0),
        "missed": deadlines.get("missed", 0),
        "unfinished": summary.get("unfinished", 0),
    }


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return str(value)[:100] if isinstance(value, str) else ""
