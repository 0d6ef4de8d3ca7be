# SPDX-License-Identifier: Apache-2.0
"""Which flows were started: so that after kill -9 every scheduled flow ends up with exactly one record.

`journal.jsonl` holds one line when the agent began, {"start_at", "next"}, and one line for every flow before
it starts, {"sequence", "record"}: the very record that is true if the agent dies now. After a restart these records
are kept for the flows of which the spool holds none; flows that were due meanwhile are recorded too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from pathlib import Path

from hostagent.records import AGENT_DOWN, to_json, unfinished
from policy.errors import EnvironmentLacking, FieldError, SluiceError
from policy.records import FlowRecord
from policy.schedule import Schedule


@dataclass(frozen=True)
class Past:
    """What the journal of an earlier process says."""

    start_at: float | None = None
    """Epoch second of the run's begin; None when there was no earlier process."""
    next_sequence: int = 0
    """Flows of the schedule before this one were started or recorded."""
    started: dict[str, FlowRecord] = field(default_factory=dict)
    """Id -> record that is true unless the spool has another one."""


@dataclass(frozen=True)
class Resumption:
    """What to do about the past."""

    records: list[FlowRecord]
    """Records to keep now."""
    next_sequence: int
    """First flow of the schedule to run."""


def resume(past: Past, schedule: Schedule, start_at: float, recorded: Set[str], now: float) -> Resumption:
    """Close what an earlier process left open. Times in seconds of the epoch; `recorded` are ids in the spool.

    In the run's first process nothing is skipped: flows that are due already start late.
    """
    records = [record for id, record in past.started.items() if id not in recorded]
    if past.start_at != start_at:
        return Resumption(records, 0)
    sequence = past.next_sequence
    while sequence < len(schedule.flows) and start_at + schedule.flows[sequence].start_s <= now:
        flow = schedule.flows[sequence]
        sequence += 1
        if flow.id in recorded:
            continue
        due_at = start_at + flow.start_s
        record = unfinished(
            flow, AGENT_DOWN, started_at=due_at, scheme=schedule.scheme, congestion_control="none"
        )
        records.append(record)
    return Resumption(records, sequence)


class Journal:
    """The journal in `folder`. `begin` must come before `start`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "journal.jsonl"
        self._file = -1
        self.lines = 0

    def past(self) -> Past:
        """What the last process left; a torn last line is not there."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return Past()
        try:
            begin, *rest = [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]
            records = [FlowRecord.from_document(line["record"]) for line in rest]
            next_sequence = max([begin["next"], *(line["sequence"] + 1 for line in rest)])
        except (ValueError, KeyError, TypeError, FieldError) as error:
            raise SluiceError(f"{self._path} is damaged ({error}): remove it to start afresh") from None
        return Past(begin["start_at"], next_sequence, {record.id: record for record in records})

    def begin(
        self, start_at: float, next_sequence: int, active: Iterable[tuple[int, FlowRecord]] = ()
    ) -> None:
        """Replace the journal, atomically, by one that knows only the flows that are active now."""
        temporary = self._path.with_suffix(".tmp")
        lines = [json.dumps({"start_at": start_at, "next": next_sequence}).encode() + b"\n"]
        lines += [_start_line(sequence, record) for sequence, record in active]
        temporary.write_bytes(b"".join(lines))
        temporary.replace(self._path)
        if self._file >= 0:
            os.close(self._file)
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self.lines = len(lines)

    def start(self, sequence: int, record: FlowRecord) -> None:
        """Note, before it starts, what is true of a flow if the agent dies. EnvironmentLacking on a full disk."""
        line = _start_line(sequence, record)
        try:
            written = os.write(self._file, line)
        except OSError as error:
            raise EnvironmentLacking(f"{self._path}: cannot note a flow: {error}") from None
        if written != len(line):
            raise EnvironmentLacking(f"{self._path}: the disk is full; make room and start the agent again")
        self.lines += 1

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _start_line(sequence: int, record: FlowRecord) -> bytes:
    return f'{{"sequence":{sequence},"record":{to_json(record)}}}\n'.encode()
