# SPDX-License-Identifier: Apache-2.0
"""Flow records on disk until the web process has accepted them. The files survive kill -9 at any moment.

    segment-00000007.jsonl   records, one write() each; a line without newline is incomplete
    cursor                   "7 12345": the web process has all before this offset of this segment
    quarantine.jsonl         records that the web process refused, each with the reason

A new process starts a new segment, so it never appends to an incomplete line. The cursor is replaced
atomically. One thread appends and another delivers; they share only counters. No file is synced to the
device, so the spool survives the process but not a power failure.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hostagent.records import to_json
from policy.errors import EnvironmentLacking
from policy.records import FlowRecord

log = logging.getLogger(__name__)

SEGMENT_BYTES = 256 * 1024
BATCH_RECORDS = 500
BATCH_BYTES = 512 * 1024


@dataclass(frozen=True, order=True)
class Position:
    """A place in the spool."""

    segment: int
    offset: int


@dataclass(frozen=True)
class Batch:
    """Complete lines, and the position after them."""

    lines: tuple[bytes, ...]
    end: Position


class Spool:
    """The spool in `folder`, which is created if missing."""

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._cursor = self._read_cursor()
        self._floor = 0
        self._delivered = 0
        self._appended = sum(1 for _ in self._lines_from(self._cursor))
        existing = self._segments()
        self._current = max([*existing, self._cursor.segment], default=0) + 1
        self._open_current()

    # -- The traffic's thread calls these.

    def append(self, record: FlowRecord) -> None:
        """Append a record. Raises EnvironmentLacking if the disk is full or broken."""
        line = to_json(record).encode() + b"\n"
        if self._size + len(line) > self._segment_bytes and self._size:
            self.rotate()
        try:
            written = os.write(self._file, line)
        except OSError as error:
            raise EnvironmentLacking(f"{self._folder}: cannot write a flow record: {error}") from None
        if written != len(line):
            raise EnvironmentLacking(f"{self._folder}: the disk is full; make room and start the agent again")
        self._size += written
        self._appended += 1

    def rotate(self) -> int:
        """Start a new segment and return its number. All earlier records are in lower segments."""
        os.close(self._file)
        self._current += 1
        self._open_current()
        return self._current

    def forget_before(self, segment: int) -> None:
        """Allow the removal of lower segments once they are delivered: `ids` need not return theirs any longer."""
        self._floor = segment

    def ids(self) -> set[str]:
        """Return the ids of all records on disk, delivered or not."""
        return {_id_of(line) for line in self._lines_from(Position(0, 0))}

    def close(self) -> None:
        """Close the current segment."""
        os.close(self._file)

    # -- The courier calls these, in the reporter's thread.

    @property
    def depth(self) -> int:
        """Number of records that wait for delivery."""
        return self._appended - self._delivered

    def next_batch(self) -> Batch | None:
        """Return the next records to deliver, or None. The batch begins with the same record until acknowledged."""
        while True:
            newest = self._current  # read it first: lower segments no longer grow
            segment = self._cursor.segment
            lines = self._read_lines(self._cursor)
            if lines:
                end = self._cursor.offset + sum(map(len, lines))
                return Batch(tuple(line.rstrip(b"\n") for line in lines), Position(segment, end))
            if segment >= newest:
                return None
            self._cursor = Position(segment + 1, 0)

    def acknowledge(self, batch: Batch) -> None:
        """Note that the web process has accepted the batch, so that it is never delivered again."""
        self._cursor = batch.end
        temporary = self._folder / "cursor.tmp"
        temporary.write_text(f"{batch.end.segment} {batch.end.offset}\n")
        temporary.replace(self._folder / "cursor")
        self._delivered += len(batch.lines)
        self._remove_delivered()

    def quarantine(self, line: bytes, why: str) -> None:
        """Write a refused record to quarantine.jsonl. The caller must acknowledge it."""
        log.error(
            "%s/quarantine.jsonl: the web process refused a record (%s): %s",
            self._folder,
            why,
            line.decode(errors="replace"),
        )
        entry = json.dumps({"why": why, "record": line.decode(errors="replace")}) + "\n"
        with (self._folder / "quarantine.jsonl").open("a") as file:
            file.write(entry)

    # -- files

    def _path(self, segment: int) -> Path:
        return self._folder / f"segment-{segment:08d}.jsonl"

    def _segments(self) -> list[int]:
        return sorted(int(path.stem.split("-")[1]) for path in self._folder.glob("segment-*.jsonl"))

    def _open_current(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(self._path(self._current), flags, 0o644)
        self._size = 0

    def _read_cursor(self) -> Position:
        try:
            segment, offset = (self._folder / "cursor").read_text().split()
            return Position(int(segment), int(offset))
        except (FileNotFoundError, ValueError):
            return Position(0, 0)  # no cursor: deliver all again, the ids make that harmless

    def _read_lines(self, start: Position) -> list[bytes]:
        """Return the complete lines from `start` in its segment, at most a batch of them."""
        try:
            with self._path(start.segment).open("rb") as file:
                file.seek(start.offset)
                data = file.read(BATCH_BYTES)
        except FileNotFoundError:
            return []
        return data[: data.rfind(b"\n") + 1].splitlines(keepends=True)[:BATCH_RECORDS]

    def _lines_from(self, start: Position) -> Iterator[bytes]:
        for segment in self._segments():
            if segment < start.segment:
                continue
            place = Position(segment, start.offset if segment == start.segment else 0)
            while lines := self._read_lines(place):
                yield from lines
                place = Position(segment, place.offset + sum(map(len, lines)))

    def _remove_delivered(self) -> None:
        for segment in self._segments():
            if segment >= min(self._floor, self._cursor.segment):
                return
            self._path(segment).unlink(missing_ok=True)


def _id_of(line: bytes) -> str:
    try:
        return str(json.loads(line)["id"])
    except (ValueError, KeyError, TypeError):
        return ""  # the web process will refuse this damaged line, so it goes to quarantine


def body_of(lines: Sequence[bytes]) -> bytes:
    """Return the JSON array of these lines, which are JSON already."""
    return b"[" + b",".join(lines) + b"]"
