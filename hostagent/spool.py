# SPDX-License-Identifier: Apache-2.0
"""Flow records on disk until the web process has accepted them. The files survive kill -9 at any moment.

    segment-00000007.jsonl   records, one write() each; a line without newline is incomplete
    cursor                   "7 12345": the web process has all before this offset of this segment
    quarantine.jsonl         records that the web process refused, each with the reason

A new process starts a new segment, so it never appends to an incomplete line. Delivery needs no
space on the disk. One thread appends and another delivers;
they share only counters and the overflow.

A disk that takes no record ends nothing. The records wait in memory, and from there they are delivered, too.
Beyond a bound the oldest are dropped and counted. The files have a bound as well, for a web process that stays away.

With `fsync`, `sync` writes the records to the device, so they survive a power failure from then on.
"""

import errno
import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sluice.hostagent.records import id_of, to_json
from sluice.policy.wire.records import FlowRecord

log = logging.getLogger(__name__)

SEGMENT_BYTES = 256 * 1024
BATCH_RECORDS = 500
BATCH_BYTES = 512 * 1024
MOST_BYTES = 256 * 1024 * 1024
"""The most bytes of all segments, about 500,000 records. Beyond them, the oldest segment is dropped."""
MOST_LINES = 20_000
"""The most lines that wait in memory, about 12 MB."""
_REFUSED_S = 10.0
"""How long a refusal of the disk is a problem if no record waits in memory."""


@dataclass(frozen=True, order=True)
class Position:
    """A place in the spool."""

    segment: int
    offset: int


class Cursor:
    """How far a spool is delivered: the file `cursor`, which holds "7 12345", padded with spaces.

    Its length is fixed and it is written in place, so it needs no space later. If it cannot be written, a later process
    delivers records again. Their ids make that harmless.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1

    def read(self) -> Position:
        """Return the position, the spool's begin if there is none, and reserve the file's space."""
        try:
            segment, offset = self._path.read_text().split()
            position = Position(int(segment), int(offset))
        except (OSError, ValueError):
            position = Position(0, 0)
        self.write(position)
        return position

    def write(self, position: Position) -> None:
        """Replace the position in one write of one sector."""
        line = f"{position.segment:<20d} {position.offset:<20d}\n".encode()
        try:
            if self._file < 0:
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            os.pwrite(self._file, line, 0)
        except OSError as error:
            log.warning("%s: cannot note what is delivered: %s", self._path, error.strerror)

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Overflow:
    """Lines that wait in memory because the disk does not take them. Beyond the bound, the oldest are dropped.

    Thread-safe: one thread adds, another delivers.
    """

    def __init__(self, most: int = MOST_LINES) -> None:
        self._lines: deque[bytes] = deque(maxlen=most)
        self._lock = threading.Lock()
        self.dropped = 0
        """Number of lines that found no room."""

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, line: bytes) -> None:
        """Append a line. If the queue is full, the oldest one is dropped and counted."""
        with self._lock:
            self.dropped += len(self._lines) == self._lines.maxlen
            self._lines.append(line)

    def take(self, most: int) -> list[bytes]:
        """Remove and return the oldest lines, at most `most`."""
        with self._lock:
            return [self._lines.popleft() for _ in range(min(most, len(self._lines)))]

    def put_back(self, line: bytes) -> None:
        """Return the line that was taken last to the front. If the queue is full, it is dropped and counted."""
        with self._lock:
            if len(self._lines) == self._lines.maxlen:
                self.dropped += 1
            else:
                self._lines.appendleft(line)


@dataclass(frozen=True)
class Batch:
    """Complete lines, and the position after them."""

    lines: tuple[bytes, ...]
    end: Position | None
    """None: the lines were in memory."""


class Spool:
    """The spool in `folder`, which is created if missing."""

    def __init__(
        self,
        folder: Path,
        segment_bytes: int = SEGMENT_BYTES,
        *,
        fsync: bool = False,
        most_bytes: int = MOST_BYTES,
        most_held: int = MOST_LINES,
    ) -> None:
        """`most_held`: how many records may wait in memory while the disk takes none."""
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._fsync, self._most_bytes = fsync, most_bytes
        self._overflow = Overflow(most_held)
        self._in_hand: list[bytes] = []  # lines of the overflow that a batch holds
        self._refusal = ""  # the error of the last write; empty if the disk took it
        self._refused_s = 0.0
        self._dropped = 0
        self._delivered = self._floor = self._size = 0
        self._file = -1
        self._unsynced: deque[int] = deque()
        """Files of ended segments that `sync` has to write to the device, and to close."""
        self._synced: tuple[int, int] | None = None
        """Segment and size up to which the device has all."""
        with suppress(OSError):  # the first segment says what is wrong
            folder.mkdir(parents=True, exist_ok=True)
        self._cursor_file = Cursor(folder / "cursor")
        self._cursor = self._cursor_file.read()
        """Before it, all is delivered. The next batch begins there."""
        self._appended = sum(1 for _ in self._lines_from(self._cursor))
        existing = self._segments()
        self._bounded_at = self._current = max([*existing, self._cursor.segment], default=0) + 1
        self._is_open()

    @property
    def dropped(self) -> int:
        """Number of records that are lost because neither disk nor memory had room for them."""
        return self._dropped + self._overflow.dropped

    @property
    def problem(self) -> str:
        """What is wrong with the disk, and the remedy; empty if it takes records."""
        is_over = time.monotonic() - self._refused_s > _REFUSED_S and not self._overflow
        if not self._refusal or is_over:
            return ""
        return (
            f"the disk takes no flow records ({self._folder}: {self._refusal}): {len(self._overflow)} wait in memory, "
            f"{self.dropped} were dropped; make room on the disk, the agent then continues by itself"
        )

    # -- The traffic's thread calls these.

    def append(self, record: FlowRecord) -> None:
        """Append a record. If the disk does not take it, it waits in memory."""
        line = to_json(record).encode() + b"\n"
        self._appended += 1
        if not (self._moved_to_disk() and self._written(line)):
            self._overflow.add(line)

    def rotate(self) -> int | None:
        """Start a new segment and return its number. All earlier records are in lower segments.

        Returns None if the disk does not take one. An empty segment stays the current one.
        """
        if self._size or self._file < 0:
            return self._current if self._next_segment() else None
        return self._current

    def forget_before(self, segment: int | None) -> None:
        """Allow the removal of lower segments once they are delivered: `ids` need not return theirs any longer."""
        if segment is not None:
            self._floor = segment

    def ids(self) -> set[str]:
        """Return the ids of all records on disk, delivered or not."""
        return {id_of(line) for line in self._lines_from(Position(0, 0))}

    def close(self) -> None:
        """Close the files. What waits in memory goes to the disk if it has room now."""
        for line in reversed(self._in_hand):
            self._overflow.put_back(line)
        self._moved_to_disk()
        self.sync()
        self._cursor_file.close()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    # -- The courier calls these, in the reporter's thread.

    @property
    def depth(self) -> int:
        """Number of records that wait for delivery."""
        return self._appended - self._delivered - self.dropped

    def next_batch(self) -> Batch | None:
        """Return the next records to deliver, or None. Until acknowledged, they come again."""
        self._keep_bound()
        while True:
            newest = self._current  # read it first: lower segments no longer grow
            segment = self._cursor.segment
            lines = self._read_lines(self._cursor)
            if lines:
                end = self._cursor.offset + sum(map(len, lines))
                return Batch(tuple(line.rstrip(b"\n") for line in lines), Position(segment, end))
            if segment >= newest:
                break
            self._cursor = Position(segment + 1, 0)
        self._in_hand = self._in_hand or self._overflow.take(BATCH_RECORDS)
        return Batch(tuple(line.rstrip(b"\n") for line in self._in_hand), None) if self._in_hand else None

    def acknowledge(self, batch: Batch) -> None:
        """Note that the web process has accepted the batch, so that it is never delivered again."""
        if batch.end is not None and batch.end <= self._cursor:
            return  # dropped meanwhile
        self._delivered += len(batch.lines)
        if batch.end is None:
            self._in_hand = []
            return
        self._cursor = batch.end
        self._cursor_file.write(batch.end)
        self._remove_delivered()

    def sync(self) -> None:
        """With `fsync`, write all records so far to the device. The caller need not be the traffic's thread."""
        written = self._current, self._size
        if not self._fsync or (written == self._synced and not self._unsynced):
            return
        current = self._file  # with fsync, only the next call of this method closes it
        try:
            while self._unsynced:
                _sync(self._unsynced.popleft(), close=True)
            if current >= 0:
                _sync(current)
            _sync(os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), close=True)
            self._synced = written
        except OSError as error:
            self._note(error)

    def quarantine(self, line: bytes, why: str) -> None:
        """Write a refused record to quarantine.jsonl. The caller must acknowledge it."""
        log.error(
            "%s/quarantine.jsonl: the web process refused a record (%s): %s",
            self._folder,
            why,
            line.decode(errors="replace"),
        )
        entry = json.dumps({"why": why, "record": line.decode(errors="replace")}) + "\n"
        try:
            with (self._folder / "quarantine.jsonl").open("a") as file:
                file.write(entry)
        except OSError as error:
            log.warning("%s/quarantine.jsonl: %s", self._folder, error.strerror)

    # -- files

    def _path(self, segment: int) -> Path:
        return self._folder / f"segment-{segment:08d}.jsonl"

    def _segments(self) -> list[int]:
        return sorted(int(path.stem.split("-")[1]) for path in self._folder.glob("segment-*.jsonl"))

    def _is_open(self) -> bool:
        """Return whether there is a current segment; try to make one if there is none."""
        return self._file >= 0 or self._next_segment()

    def _next_segment(self) -> bool:
        """Start a new segment. If the disk does not take one, everything stays as it is."""
        number = self._current + (self._file >= 0)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path(number), flags, 0o644)
        except OSError as error:
            self._note(error)
            return False
        ended, self._file, self._size, self._current = self._file, file, 0, number
        if ended >= 0 and self._fsync:
            self._unsynced.append(ended)
        elif ended >= 0:
            os.close(ended)
        return True

    def _moved_to_disk(self) -> bool:
        """Return whether no record waits in memory any more; the disk takes as many as it can."""
        while lines := self._overflow.take(1):
            if not self._written(lines[0]):
                self._overflow.put_back(lines[0])
                return False
        return True

    def _written(self, line: bytes) -> bool:
        """Write a line into the current segment, wholly or not at all."""
        if not self._is_open():
            return False
        if self._size and self._size + len(line) > self._segment_bytes:
            self._next_segment()  # if the disk takes no other segment, this one grows
        try:
            if os.write(self._file, line) != len(line):
                os.ftruncate(self._file, self._size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._note(error)
            return False
        self._size += len(line)
        self._note(None)
        return True

    def _note(self, error: OSError | None) -> None:
        """Remember the disk's last answer, and log it when it changes."""
        refusal = "" if error is None else error.strerror or str(error)
        self._refused_s = time.monotonic()
        if refusal and not self._refusal:
            log.warning("%s: the disk takes no flow records, they wait in memory: %s", self._folder, refusal)
        elif self._refusal and not refusal:
            log.info("%s: the disk takes flow records again; %d were dropped", self._folder, self.dropped)
        self._refusal = refusal

    def _keep_bound(self) -> None:
        """Drop the oldest segments beyond the bound. It looks once for each new segment."""
        if self._bounded_at == self._current:
            return
        self._bounded_at = self._current
        sizes = {segment: self._path(segment).stat().st_size for segment in self._segments()}
        total = sum(sizes.values())
        for segment, size in sizes.items():
            if total <= self._most_bytes or segment >= self._bounded_at:
                return
            start = max(self._cursor, Position(segment, 0))
            lost = sum(1 for _ in self._lines_of(start)) if start.segment == segment else 0
            self._dropped += lost
            self._cursor = max(self._cursor, Position(segment + 1, 0))
            self._path(segment).unlink(missing_ok=True)
            total -= size
            if lost:
                log.warning(
                    "%s: too many records wait for delivery; the oldest %d were dropped", self._folder, lost
                )

    def _read_lines(self, start: Position) -> list[bytes]:
        """Return the complete lines from `start` in its segment, at most a batch of them."""
        try:
            with self._path(start.segment).open("rb") as file:
                file.seek(start.offset)
                data = file.read(BATCH_BYTES)
        except FileNotFoundError:
            return []
        except OSError as error:
            log.error("cannot read flow records: %s", error)
            return []
        return data[: data.rfind(b"\n") + 1].splitlines(keepends=True)[:BATCH_RECORDS]

    def _lines_from(self, start: Position) -> Iterator[bytes]:
        for segment in self._segments():
            if segment >= start.segment:
                yield from self._lines_of(max(start, Position(segment, 0)))

    def _lines_of(self, place: Position) -> Iterator[bytes]:
        """Yield the complete lines of one segment from a place on."""
        while lines := self._read_lines(place):
            yield from lines
            place = Position(place.segment, place.offset + sum(map(len, lines)))

    def _remove_delivered(self) -> None:
        for segment in self._segments():
            if segment >= min(self._floor, self._cursor.segment):
                return
            try:
                self._path(segment).unlink(missing_ok=True)
            except OSError as error:
                log.warning("%s: cannot remove delivered records: %s", self._path(segment), error.strerror)
                return


def _sync(file: int, *, close: bool = False) -> None:
    try:
        os.fsync(file)
    finally:
        if close:
            os.close(file)
