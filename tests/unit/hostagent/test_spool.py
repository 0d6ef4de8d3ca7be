# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hostagent.spool import Batch, Spool, body_of
from policy.records import FlowRecord
from tests.unit.hostagent.flows import record


def drain(spool: Spool) -> list[str]:
    """Deliver everything. Returns the ids in order."""
    ids = []
    while batch := spool.next_batch():
        ids += [FlowRecord.from_document(document).id for document in json.loads(body_of(batch.lines))]
        spool.acknowledge(batch)
    return ids


def next_batch(spool: Spool) -> Batch:
    """Return the next batch, which must exist."""
    batch = spool.next_batch()
    assert batch is not None
    return batch


def ids(*numbers: int) -> list[str]:
    return [f"run/{number}" for number in numbers]


def test_records_are_delivered_once_and_in_order(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment_bytes=1000)
    for number in range(20):
        spool.append(record(number))
    assert spool.depth == 20
    assert drain(spool) == ids(*range(20))
    assert spool.depth == 0
    assert spool.next_batch() is None


def test_next_batch__is_the_same_until_acknowledged(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(record(1))
    first = next_batch(spool)
    spool.append(record(2))
    assert next_batch(spool).lines[:1] == first.lines
    spool.acknowledge(first)
    assert drain(spool) == ids(2)


def test_restart__delivers_unacknowledged_records(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment_bytes=1000)
    for number in range(10):
        spool.append(record(number))
    spool.acknowledge(next_batch(spool))
    left = spool.depth
    assert 0 < left < 10
    again = Spool(tmp_path, segment_bytes=1000)  # without close(), as after kill -9
    assert again.depth == left
    again.append(record(10))
    assert drain(again) == ids(*range(10 - left, 11))


def test_restart__after_a_tear_at_every_byte_of_the_last_record(tmp_path: Path) -> None:
    original = tmp_path / "original"
    spool = Spool(original)
    spool.append(record(1))
    spool.append(record(2))
    data = (original / "segment-00000001.jsonl").read_bytes()
    first = data.index(b"\n") + 1
    for length in range(len(data) + 1):
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
    spool = Spool(tmp_path)
    spool.append(record(1))
    drain(spool)
    (tmp_path / "cursor").write_text("")
    assert drain(Spool(tmp_path)) == ids(1)


def test_segments_are_removed_once_delivered_and_forgotten(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment_bytes=1000)
    for number in range(10):
        spool.append(record(number))
    drain(spool)
    assert spool.ids() == set(ids(*range(10)))  # delivered, but needed after a restart
    spool.forget_before(spool.rotate())
    spool.append(record(10))
    drain(spool)
    assert spool.ids() == set(ids(10))
    assert len(list(tmp_path.glob("segment-*"))) == 1


def test_forgotten_segments_stay_until_they_are_delivered(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(record(1))
    spool.forget_before(spool.rotate())
    assert drain(Spool(tmp_path)) == ids(1)


def test_a_batch_is_bounded(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment_bytes=10**9)
    for number in range(1201):
        spool.append(record(number))
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


def test_quarantine(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.quarantine(b'{"id":"x"}', "422 no")
    entry = json.loads((tmp_path / "quarantine.jsonl").read_text())
    assert entry == {"why": "422 no", "record": '{"id":"x"}'}


def test_append__a_full_disk_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from policy.errors import EnvironmentLacking

    spool = Spool(tmp_path)
    monkeypatch.setattr("os.write", lambda fd, data: len(data) - 3)
    with pytest.raises(EnvironmentLacking, match="disk is full"):
        spool.append(record(1))
