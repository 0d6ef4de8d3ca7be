# SPDX-License-Identifier: Apache-2.0
"""Delivery over a real Unix socket, through lost answers, restarts on both sides and bad records."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.hostagent.reporter import Courier
from sluice.hostagent.spool import Spool
from sluice.runtime.http_client import HttpClient, ServerAway
from tests.unit.hostagent.fake_web import FakeWeb
from tests.unit.hostagent.flows import record


@pytest.fixture
def web() -> Iterator[FakeWeb]:
    # A short name, because a socket path has at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="sluice-"))
    with FakeWeb(folder / "web.sock") as server:
        yield server
    shutil.rmtree(folder)


def deliver_all(courier: Courier) -> None:
    while courier.deliver():
        pass


def test_delivers_once_without_faults(web: FakeWeb, tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for number in range(700):
        spool.append(record(number))
    deliver_all(Courier(spool, HttpClient(web.target).post))
    assert len(web.deliveries) == 700
    assert set(web.deliveries.values()) == {1}


@pytest.mark.parametrize("seed", range(8))
def test_every_record_arrives_despite_kills_and_losses(web: FakeWeb, tmp_path: Path, seed: int) -> None:
    """The web process drops requests and answers and restarts. The agent is killed within a line."""
    rng = random.Random(seed)
    web.refuse_requests = web.lose_answers = 0.2
    spool, number = Spool(tmp_path, segment_bytes=2000), 0
    courier = Courier(spool, HttpClient(web.target).post)
    for _ in range(150):
        for _ in range(rng.randrange(4)):
            spool.append(record(number))
            number += 1
        act = rng.random()
        if act < 0.1:
            newest = max(tmp_path.glob("segment-*"))
            with newest.open("ab") as file:
                file.write(b'{"id":"torn')
            spool = Spool(tmp_path, segment_bytes=2000)
            courier = Courier(spool, HttpClient(web.target).post)
        elif act < 0.2:
            web.stop()
            web.start()
        elif act < 0.3:
            spool.forget_before(spool.rotate())
        try:
            courier.deliver()
        except ServerAway:
            continue
    web.refuse_requests = web.lose_answers = 0.0
    deliver_all(courier)
    assert set(web.records) == {f"run/{i}" for i in range(number)}
    assert spool.depth == 0
    assert courier.refused == 0


def test_web_away__raises_and_keeps_the_records(web: FakeWeb, tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(record(1))
    web.stop()
    courier = Courier(spool, HttpClient(web.target).post)
    with pytest.raises(ServerAway):
        courier.deliver()
    assert spool.depth == 1
    web.start()
    deliver_all(courier)
    assert set(web.records) == {"run/1"}


def test_a_bad_record_goes_to_quarantine_and_the_others_arrive(web: FakeWeb, tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for number in range(40):
        spool.append(record(number))
    segment = tmp_path / "segment-00000001.jsonl"
    text = segment.read_text().replace('"run/17","src":"h1"', '"run/17","src":"h 1"')
    segment.write_text(text.replace('{"id":"run/30"', '{id:"run/30"'))
    courier = Courier(spool, HttpClient(web.target).post)
    deliver_all(courier)
    assert set(web.records) == {f"run/{i}" for i in range(40)} - {"run/17", "run/30"}
    assert courier.refused == 2
    quarantine = (tmp_path / "quarantine.jsonl").read_text()
    assert "src: must be a host" in quarantine
    assert len(quarantine.splitlines()) == 2
    assert spool.depth == 0


@pytest.mark.parametrize("status", [404, 405, 429, 500, 503])
def test_a_failing_service_loses_no_record(web: FakeWeb, tmp_path: Path, status: int) -> None:
    spool = Spool(tmp_path)
    spool.append(record(1))
    courier = Courier(spool, HttpClient(web.target).post)
    web.flow_status = status
    with pytest.raises(ServerAway, match=str(status)):
        courier.deliver()
    web.flow_status = None
    deliver_all(courier)
    assert set(web.records) == {"run/1"}
    assert not (tmp_path / "quarantine.jsonl").exists()
