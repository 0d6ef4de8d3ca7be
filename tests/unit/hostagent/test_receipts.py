# SPDX-License-Identifier: Apache-2.0
"""Delivery to a web process that answers before the device of its database has the records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sluice.hostagent import courier as courier_module
from sluice.hostagent import spool as spool_module
from sluice.hostagent.courier import EARLY, PATH, Courier
from sluice.hostagent.spool import Spool
from sluice.runtime.http_client import Answer, ServerAway
from tests.unit.hostagent.flows import record


class Web:
    """Gives receipts, and has what it took on the device when `settle` is called. `crash` takes the rest."""

    def __init__(self) -> None:
        self.epoch, self.given, self.reached = "a", 0, 0
        self.kept: set[str] = set()
        self.taken: dict[int, set[str]] = {}
        self.deliveries: list[set[str]] = []
        self.is_early = True
        self.wrong = ""

    def settle(self) -> None:
        self.reached = self.given
        for ids in self.taken.values():
            self.kept |= ids
        self.taken.clear()

    def crash(self) -> None:
        self.taken.clear()
        self.epoch, self.given, self.reached = self.epoch + "a", 0, 0

    def post(self, path: str, body: bytes) -> Answer:
        ids = {document["id"] for document in json.loads(body)}
        self.deliveries.append(ids)
        if self.wrong in ids:
            return Answer(422, b'{"error": {"problem": "wrong"}}')
        if path == PATH or not self.is_early:
            self.settle()
            self.kept |= ids
            return self.answer({})
        self.given += 1
        self.taken[self.given] = ids
        return self.answer(
            {"receipt": f"{self.epoch}.{self.given}", "durable_to": f"{self.epoch}.{self.reached}"}
        )

    def answer(self, more: dict[str, Any]) -> Answer:
        return Answer(200, json.dumps({"accepted": 1, "known": 0, **more}).encode())


@pytest.fixture
def web() -> Web:
    return Web()


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    monkeypatch.setattr(spool_module, "BATCH_RECORDS", 2)
    return Spool(tmp_path, segment_bytes=1500)


def append(spool: Spool, first: int, count: int) -> set[str]:
    for number in range(first, first + count):
        spool.append(record(number))
    return {f"run/{number}" for number in range(first, first + count)}


def deliver_all(courier: Courier) -> None:
    while courier.deliver():
        pass


def test_records_stay_in_the_spool_until_the_device_has_them(web: Web, spool: Spool, tmp_path: Path) -> None:
    ids, courier = append(spool, 0, 9), Courier(spool, web.post, early=True)
    deliver_all(courier)
    assert set().union(*web.deliveries) == ids
    assert spool.depth == 9
    assert Spool(tmp_path).depth == 9, "an agent that starts now delivers them again"
    web.settle()
    deliver_all(courier)
    assert spool.depth == 0
    assert Spool(tmp_path).depth == 0
    assert sum(map(len, web.deliveries)) == 9, "each once, and otherwise empty questions"


def test_each_answer_says_what_the_device_has(web: Web, spool: Spool) -> None:
    append(spool, 0, 2)
    courier = Courier(spool, web.post, early=True)
    assert courier.deliver()
    web.settle()
    append(spool, 2, 2)
    assert courier.deliver()
    assert spool.depth == 2


@pytest.mark.parametrize("more", [0, 3])
def test_what_a_crash_took_is_delivered_again_in_order(web: Web, spool: Spool, more: int) -> None:
    courier = Courier(spool, web.post, early=True)
    ids = append(spool, 0, 2)
    assert courier.deliver()
    web.settle()
    ids |= append(spool, 2, 5)
    deliver_all(courier)
    web.crash()
    assert web.kept == {"run/0", "run/1"}
    ids |= append(spool, 7, more)
    deliver_all(courier)
    web.settle()
    deliver_all(courier)
    assert web.kept == ids
    assert spool.depth == 0


def test_a_web_process_without_receipts_does_not_confirm_those_of_another(web: Web, spool: Spool) -> None:
    courier = Courier(spool, web.post, early=True)
    ids = append(spool, 0, 4)
    deliver_all(courier)
    web.crash()
    web.is_early = False
    ids |= append(spool, 4, 1)
    deliver_all(courier)
    assert web.kept == ids
    assert spool.depth == 0


def test_a_wrong_record_amid_those_that_wait_goes_to_quarantine(
    web: Web, spool: Spool, tmp_path: Path
) -> None:
    courier = Courier(spool, web.post, early=True)
    ids = append(spool, 0, 9)
    web.wrong = "run/6"
    deliver_all(courier)
    web.settle()
    deliver_all(courier)
    assert web.kept == ids - {"run/6"}
    assert courier.refused == 1
    assert len((tmp_path / "quarantine.jsonl").read_text().splitlines()) == 1
    assert spool.depth == 0


def test_no_more_than_so_many_batches_wait(web: Web, spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier_module, "MOST_WAITING", 3)
    ids, courier = append(spool, 0, 20), Courier(spool, web.post, early=True)
    deliver_all(courier)
    assert sum(map(len, web.deliveries)) == 6
    while spool.depth:
        web.settle()
        deliver_all(courier)
    assert web.kept == ids


def test_another_form_of_receipt_is_an_outage(web: Web, spool: Spool) -> None:
    append(spool, 0, 1)
    courier = Courier(spool, lambda path, body: Answer(200, b'{"receipt": "seven"}'), early=True)
    with pytest.raises(ServerAway, match=r"EPOCH\.NUMBER"):
        courier.deliver()
    assert spool.depth == 1


@pytest.mark.parametrize(("early", "path"), [(True, EARLY), (False, PATH)])
def test_only_a_spool_on_a_device_allows_an_early_answer(
    web: Web, spool: Spool, early: bool, path: str
) -> None:
    paths: list[str] = []

    def post(path: str, body: bytes) -> Answer:
        paths.append(path)
        return web.post(path, body)

    append(spool, 0, 1)
    assert Courier(spool, post, early=early).deliver()
    assert paths == [path]
