# SPDX-License-Identifier: Apache-2.0
"""The journal of started flows. With it, every scheduled flow has exactly one record, even after kill -9.

`journal.jsonl` begins with the line {"start_at", "next"}. Before each flow starts, the agent appends
{"sequence", "record"}: the record that is true if the agent dies from then on. After a restart, the
agent spools these records for the flows that have none in the spool. It also records the flows that
were due while no agent ran.

A disk that takes no line ends nothing: the flow starts all the same. If the agent is then killed, that flow has no
record.
"""

import json
import logging
import os
from collections.abc import Iterable, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sluice.hostagent.records import AGENT_DOWN, to_json, unfinished
from sluice.policy.errors import FieldError
from sluice.policy.wire.records import FlowRecord, Schedule

log = logging.getLogger(__name__)

CHECKPOINT_LINES = 5000
"""The journal is rewritten after this many lines."""
_RETRY_LINES = 100
"""After this many lines, the agent tries again to rewrite a journal that the disk has refused."""


@dataclass(frozen=True)
class JournalContents:
    """The journal of an earlier agent process."""

    start_at: float | None = None
    """Start of the run (epoch, s); None if there was no earlier process."""
    next_sequence: int = 0
    """All flows of the schedule before this one were started or recorded."""
    started: dict[str, FlowRecord] = field(default_factory=dict)
    """Id → the record of the flow, unless the spool has one."""


def resume(
    earlier: JournalContents, schedule: Schedule, start_at: float, recorded: Set[str], now: float
) -> tuple[list[FlowRecord], int]:
    """Return the records that an earlier process owes, and the sequence number of the first flow to start.

    Times are epoch seconds; `recorded` holds the ids in the spool. The first process of a run skips no
    flow: one that is already due starts late.
    """
    records = [record for id, record in earlier.started.items() if id not in recorded]
    if earlier.start_at != start_at:
        return records, 0
    sequence = earlier.next_sequence
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
    return records, sequence


class Journal:
    """The journal in `folder`. Call `replace` before `append_start`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "journal.jsonl"
        self._file = -1
        self._size = 0
        self._lines = 0
        with suppress(OSError):  # the first write says what is wrong
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def is_long(self) -> bool:
        """Whether to replace the journal before the next line."""
        return self._lines >= CHECKPOINT_LINES

    def read(self) -> JournalContents:
        """Return what the last process wrote, without an incomplete last line.

        A damaged journal is kept beside the new one, as `journal.damaged`, and counts as empty.
        """
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return JournalContents()
        except OSError as error:
            log.error("cannot read the journal %s (%s); the flows in it get no record", self._path, error)
            return JournalContents()
        try:
            begin, *starts = [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]
            records = [FlowRecord.from_document(start["record"]) for start in starts]
            next_sequence = max([begin["next"], *(start["sequence"] + 1 for start in starts)])
        except (ValueError, KeyError, TypeError, FieldError) as error:
            aside = self._path.with_suffix(".damaged")
            log.error(
                "%s: the journal is damaged (%s); the flows in it get no record; see %s",
                self._path,
                error,
                aside,
            )
            with suppress(OSError):
                self._path.replace(aside)
            return JournalContents()
        return JournalContents(begin["start_at"], next_sequence, {record.id: record for record in records})

    def replace(
        self, start_at: float, next_sequence: int, active: Iterable[tuple[int, FlowRecord]] = ()
    ) -> bool:
        """Replace the journal atomically by one with only the active flows. Returns false if the disk refuses that."""
        temporary = self._path.with_suffix(".tmp")
        lines = [json.dumps({"start_at": start_at, "next": next_sequence}).encode() + b"\n"]
        lines += [_start_line(sequence, record) for sequence, record in active]
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(b"".join(lines))
            temporary.replace(self._path)
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            log.warning(
                "%s: the disk takes no journal (%s); flows start all the same", self._path, error.strerror
            )
            self._lines = CHECKPOINT_LINES - _RETRY_LINES
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            return False
        self.close()
        self._file, self._lines, self._size = file, len(lines), sum(map(len, lines))
        return True

    def append_start(self, sequence: int, record: FlowRecord) -> None:
        """Append a flow before it starts, with its record if the agent dies: a whole line, or none."""
        line = _start_line(sequence, record)
        self._lines += 1
        with suppress(OSError):  # also of a journal that the disk has not taken
            if os.write(self._file, line) == len(line):
                self._size += len(line)
            else:
                os.ftruncate(self._file, self._size)

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _start_line(sequence: int, record: FlowRecord) -> bytes:
    return f'{{"sequence":{sequence},"record":{to_json(record)}}}\n'.encode()
