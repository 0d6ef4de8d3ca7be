# SPDX-License-Identifier: Apache-2.0
"""Reads the agent's part of a run's schedule, and the run's start time. The runner writes both files."""

from __future__ import annotations

import json
from pathlib import Path

from policy.entries import read
from policy.errors import FieldError
from policy.schedule import Schedule

EMPTY = Schedule("none")


def load_schedule(path: Path, host: str) -> Schedule:
    """Return the schedule with the flows that `host` sends. Raises FieldError that names the file or the key."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise FieldError(str(path), f"is not a readable schedule ({error})") from None
    schedule = read(Schedule, document)
    for place, flow in enumerate(schedule.flows):
        if flow.dst not in schedule.addresses:
            raise FieldError(
                f"flows[{place}].dst", f"{flow.dst} has no address: add an entry {flow.dst} to addresses"
            )
    return schedule.of_host(host)


def start_in(file: Path) -> float | None:
    """Return the start time (epoch, s) in a start file; None while the file does not exist."""
    try:
        return float(file.read_text())
    except FileNotFoundError:
        return None


def write_start(file: Path, start_at: float) -> None:
    """Write a start file atomically, so that the agents that wait for it start."""
    part = file.with_name(f"{file.name}.part")
    part.write_text(repr(start_at))
    part.replace(file)
