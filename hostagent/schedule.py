# SPDX-License-Identifier: Apache-2.0
"""Reads the agent's part of a run's schedule, and the run's start time. The runner writes both files."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import replace
from pathlib import Path

from sluice.policy.errors import FieldError
from sluice.policy.schema.entries import entries, read, write
from sluice.policy.wire.records import Schedule, ScheduledFlow

EMPTY = Schedule("none")
_GZIP = b"\x1f\x8b"
_FAST = 1
_NONE = object()
_FIELDS = [
    (each.key, each.name, _NONE if each.is_required else each.default) for each in entries(ScheduledFlow)
]


def load_schedule(path: Path, host: str) -> Schedule:
    """Return the schedule with the flows that `host` sends. Raises FieldError that names the file or the key."""
    try:
        content = path.read_bytes()
        document = json.loads(gzip.decompress(content) if content.startswith(_GZIP) else content)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise FieldError(str(path), f"is not a readable schedule ({error})") from None
    schedule = read(Schedule, document)
    for place, flow in enumerate(schedule.flows):
        if flow.dst not in schedule.addresses:
            raise FieldError(
                f"flows[{place}].dst", f"{flow.dst} has no address: add an entry {flow.dst} to addresses"
            )
    return schedule.of_host(host)


def write_schedule(path: Path, schedule: Schedule) -> None:
    """Write a schedule for `load_schedule`: a flow a line, without what has its default, compressed."""
    head = {key: value for key, value in write(replace(schedule, flows=())).items() if key != "flows"}
    with gzip.open(path, "wt", compresslevel=_FAST) as file:
        file.write(f'{json.dumps(head)[:-1]}, "flows": [')
        for number, flow in enumerate(schedule.flows):
            given = {
                key: value for key, name, default in _FIELDS if (value := getattr(flow, name)) != default
            }
            file.write(f"{',' if number else ''}\n{json.dumps(given)}")
        file.write("\n]}\n")


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
