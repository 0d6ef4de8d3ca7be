# SPDX-License-Identifier: Apache-2.0
import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from sluice.hostagent.spool import Batch, Spool
from tests.kit.flows import drain, record
from tests.kit.known import known


def next_batch(spool: Spool) -> Batch:
    """Return the next batch, which must exist."""
    return known(spool.next_batch())


def spool_of(folder: Path, count: int, **settings: Any) -> Spool:
    """Return a spool with the records from 0 on."""
    spool = Spool(folder, **settings)
    for number in range(count):
        spool.append(record(number))
    return spool


def ids(*numbers: int) -> list[str]:
    return [f"run/{number}" for number in numbers]


def test_next_batch__is_the_same_until_acknowledged(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(record(1))
    first = next_batch(spool)
    spool.append(record(2))
    assert next_batch(spool).lines[:1] == first.lines
    spool.acknowledge(first)
    assert drain(spool) == ids(2)


def test_restart__delivers_unacknowledged_records(tmp_path: Path) -> None:
    spool = spool_of(tmp_path, 10, segment_bytes=1000)
    spool.acknowledge(next_batch(spool))
    left = spool.depth
    assert 0 < left < 10
    again = Spool(tmp_path, segment_bytes=1000)  # without close(), as after kill -9
    assert again.depth == left
    again.append(record(10))
    assert drain(again) == ids(*range(10 - left, 11))


def test_restart__after_a_tear_anywhere(tmp_path: Path) -> None:
    original = tmp_path / "original"
    spool = Spool(original)
    spool.append(record(1))
    spool.append(record(2))
    data = (original / "segment-00000001.jsonl").read_bytes()
    first = data.index(b"\n") + 1
    for length in sorted({*range(0, len(data), 23), first - 1, first, len(data) - 1, len(data)}):
        torn = tmp_path / "torn"
        shutil.copytree(original, torn)
        (torn / "segment-00000001.jsonl").write_bytes(data[:length])
        again = Spool(torn)
        again.append(record(3))
        whole = (length >= first) + (length == len(data))
        assert again.depth == whole + 1
        assert again.ids() == set(ids(1, 2)[:whole] + ids(3))
        assert drain(again) == ids(1, 2)[:whole] + ids(3)
        assert again.depth == 0
        again.close()
        shutil.rmtree(torn)


def test_restart__without_a_cursor_all_records_come_again(tmp_path: Path) -> None:
    drain(spool_of(tmp_path, 2))
    (tmp_path / "cursor").write_text("")
    assert drain(Spool(tmp_path)) == ids(0, 1)


def test_segments_are_removed_once_delivered_and_forgotten(tmp_path: Path) -> None:
    spool = spool_of(tmp_path, 10, segment_bytes=1000)
    drain(spool)
    assert spool.ids() == set(ids(*range(10)))  # delivered, but needed after a restart
    spool.forget_before(spool.rotate())
    spool.append(record(10))
    drain(spool)
    assert spool.ids() == set(ids(10))
    assert len(list(tmp_path.glob("segment-*"))) == 1


def test_forgotten_segments_stay_until_they_are_delivered(tmp_path: Path) -> None:
    spool = spool_of(tmp_path, 1)
    spool.forget_before(spool.rotate())
    assert drain(Spool(tmp_path)) == ids(0)


def test_a_batch_is_bounded(tmp_path: Path) -> None:
    spool = spool_of(tmp_path, 1201, segment_bytes=10**9)
    assert len(next_batch(spool).lines) == 500
    assert len(drain(spool)) == 1201


def test_damaged_lines_do_not_stop_the_others(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(record(1))
    with (tmp_path / "segment-00000001.jsonl").open("ab") as file:
        file.write(b"\x00garbage\n")
    again = Spool(tmp_path)
    again.append(record(2))
    assert again.ids() == {"run/1", "", "run/2"}
    first = next_batch(again)
    assert first.lines[1] == b"\x00garbage"
    again.acknowledge(first)
    assert drain(again) == ids(2)


class FullDisk:
    """Takes the first bytes of each write while it is full, as a file system with a partly used block does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        write, pwrite = os.write, os.pwrite

        def limited(file: int, data: bytes) -> int:
            return write(file, data[:7] if self.full else data)

        def refused(file: int, data: bytes, offset: int) -> int:
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return pwrite(file, data, offset)

        monkeypatch.setattr("os.write", limited)
        monkeypatch.setattr("os.pwrite", refused)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


def test_a_full_disk__records_wait_in_memory_and_are_delivered_from_there(
    tmp_path: Path, disk: FullDisk
) -> None:
    spool = spool_of(tmp_path, 1)
    disk.full = True
    spool.append(record(1))
    spool.append(record(2))
    assert spool.depth == 3
    assert "No space left on device" in spool.problem
    assert "disk" in spool.problem
    assert "2 wait in memory" in spool.problem
    assert drain(spool) == ids(0, 1, 2)
    assert (spool.depth, spool.dropped) == (0, 0)


def test_a_full_disk__once_there_is_room_the_records_reach_it_in_order(
    tmp_path: Path, disk: FullDisk
) -> None:
    spool = spool_of(tmp_path, 1)
    disk.full = True
    spool.append(record(1))
    disk.full = False
    spool.append(record(2))
    assert spool.problem == ""
    assert drain(Spool(tmp_path)) == ids(0, 1, 2)  # of another process: all are on the disk


def test_a_full_disk__the_oldest_in_memory_are_dropped_and_counted(tmp_path: Path, disk: FullDisk) -> None:
    disk.full = True
    spool = spool_of(tmp_path, 5, most_held=3)
    assert (spool.depth, spool.dropped) == (3, 2)
    assert "2 were dropped" in spool.problem
    disk.full = False
    assert drain(spool) == ids(2, 3, 4)
    assert (spool.depth, spool.dropped) == (0, 2)


def test_a_full_disk__a_new_process_starts_and_delivers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Spool(tmp_path / "spool").append(record(1))

    def no_room(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.open", no_room)
    spool = Spool(tmp_path / "spool")
    spool.append(record(2))
    assert drain(spool) == ids(1, 2)


def test_a_full_disk__closing_saves_what_waits_in_memory(tmp_path: Path, disk: FullDisk) -> None:
    disk.full = True
    spool = spool_of(tmp_path, 3)
    assert len(next_batch(spool).lines) == 3  # the web process does not answer
    disk.full = False
    spool.close()
    assert drain(Spool(tmp_path)) == ids(0, 1, 2)


def test_beyond_the_bound_of_the_files_the_oldest_segments_are_dropped(tmp_path: Path) -> None:
    spool = spool_of(tmp_path, 40, segment_bytes=1000, most_bytes=4000)
    left = drain(spool)
    assert left == ids(*range(40 - len(left), 40))
    assert 0 < len(left) < 20
    assert spool.dropped == 40 - len(left)
    assert spool.depth == 0
    assert sum(path.stat().st_size for path in tmp_path.glob("segment-*")) <= 6000


def test_fsync__covers_ended_segments_the_current_one_and_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr("os.fsync", lambda file: synced.append(str(Path(f"/proc/self/fd/{file}").readlink())))
    for fsync in (False, True):
        spool = spool_of(tmp_path / str(fsync), 5, segment_bytes=1000, fsync=fsync)
        spool.sync()
        spool.close()
    assert {Path(path).name for path in synced} >= {
        "True",
        "segment-00000001.jsonl",
        "segment-00000002.jsonl",
    }
    assert not any("False" in path for path in synced)
