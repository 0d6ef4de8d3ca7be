# SPDX-License-Identifier: Apache-2.0
"""Flow records on disk until the web process has them: append-only JSON lines that survive kill -9 at any moment.

    segment-00000007.jsonl   records, one write() each; a line without its newline was never finished
    cursor                   "7 12345": all before this offset of this segment has been accepted; replaced atomically
    quarantine.jsonl         records that the web process refuses, with its words

A new process starts a new segment, so it never writes behind a torn line. One thread appends, another one delivers;
they share only counters. Nothing is synced to the device: the spool outlives the process, not the machine.
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
    """Whole lines, and the position behind them."""

    lines: tuple[bytes, ...]
    end: Position


class Spool:
    """The spool in `folder`, made when missing."""

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

    # -- the writer's side

    def append(self, record: FlowRecord) -> None:
        """Keep a record. EnvironmentLacking when the disk does not take it."""
        line = to_json(record).encode() + b"\n"
        if self._size + len(line) > self._segment_bytes and self._size:
            self.rotate()
        try:
            written = os.write(self._file, line)
        except OSError as error:
            raise EnvironmentLacking(f"{self._folder}: cannot keep a flow record: {error}") from None
        if written != len(line):
            raise EnvironmentLacking(f"{self._folder}: the disk is full; make room and start the agent again")
        self._size += written
        self._appended += 1

    def rotate(self) -> int:
        """Start a new segment; returns its number. Every record so far lies in a lower one."""
        os.close(self._file)
        self._current += 1
        self._open_current()
        return self._current

    def forget_before(self, segment: int) -> None:
        """Nobody will ask for the ids in lower segments any more: they go once they have been delivered."""
        self._floor = segment

    def ids(self) -> set[str]:
        """Ids of all records still on disk, delivered or not."""
        return {_id_of(line) for line in self._lines_from(Position(0, 0))}

    def close(self) -> None:
        os.close(self._file)

    # -- the courier's side

    @property
    def depth(self) -> int:
        """Records that wait for delivery."""
        return self._appended - self._delivered

    def next_batch(self) -> Batch | None:
        """What to deliver next, or None when nothing waits. The same again until it is acknowledged."""
        while True:
            newest = self._current  # before reading: a lower segment does not grow any more
            segment = self._cursor.segment
            lines = self._read_lines(self._cursor)
            if lines:
                end = self._cursor.offset + sum(map(len, lines))
                return Batch(tuple(line.rstrip(b"\n") for line in lines), Position(segment, end))
            if segment >= newest:
                return None
            self._cursor = Position(segment + 1, 0)

    def acknowledge(self, batch: Batch) -> None:
        """The web process has accepted the batch: never deliver it again."""
        self._cursor = batch.end
        temporary = self._folder / "cursor.tmp"
        temporary.write_text(f"{batch.end.segment} {batch.end.offset}\n")
        temporary.replace(self._folder / "cursor")
        self._delivered += len(batch.lines)
        self._remove_delivered()

    def quarantine(self, line: bytes, why: str) -> None:
        """Put aside a record that the web process refuses. The caller acknowledges it then."""
        log.error("refused record put aside in %s: %s: %s", self._folder, why, line.decode(errors="replace"))
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
            return Position(0, 0)  # none, or lost with the machine: deliver all again, records are idempotent

    def _read_lines(self, start: Position) -> list[bytes]:
        """Whole lines from `start` in its segment, as many as a batch takes."""
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
        return ""  # a damaged line: the web process refuses it, and it goes to quarantine


def body_of(lines: Sequence[bytes]) -> bytes:
    """The JSON array of these records: they are JSON already."""
    return b"[" + b",".join(lines) + b"]"
