# SPDX-License-Identifier: Apache-2.0
"""The agent's part of a run's schedule, read from the file that the runner writes."""

from __future__ import annotations

import json
from pathlib import Path

from policy.entries import read
from policy.errors import FieldError
from policy.schedule import Schedule

EMPTY = Schedule("none")


def load_schedule(path: Path, host: str) -> Schedule:
    """Read the file and keep the flows that `host` sends. Raises FieldError that names what is wrong."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise FieldError(str(path), f"is not a readable schedule ({error})") from None
    schedule = read(Schedule, document)
    for place, flow in enumerate(schedule.flows):
        if flow.dst not in schedule.addresses:
            raise FieldError(f"flows[{place}].dst", f"{flow.dst} has no address in addresses")
    return schedule.of_host(host)


def start_in(file: Path) -> float | None:
    """The epoch second in a start file; None while there is no such file."""
    try:
        return float(file.read_text())
    except FileNotFoundError:
        return None


def write_start(file: Path, start_at: float) -> None:
    """Let the agents that wait for this file begin; they see all of it or nothing."""
    part = file.with_name(f"{file.name}.part")
    part.write_text(repr(start_at))
    part.replace(file)
