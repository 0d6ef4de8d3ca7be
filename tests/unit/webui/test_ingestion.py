# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from sluice.policy.wire.records import FlowRecord
from sluice.runtime.wait import wait_until
from sluice.store.flows import Added, add_batches, all_flows
from sluice.webui import ingestion as ingestion_module
from sluice.webui.durable import Durable
from sluice.webui.ingestion import Ingestion
from tests.unit.webui.records import record


def batch(name: str, count: int) -> list[FlowRecord]:
    return [FlowRecord.from_document(record(f"{name}.{i}")) for i in range(count)]


class Slow:
    """Holds the first transaction until it is released, and records how many batches each one has."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failing: Sequence[int] = ()) -> None:
        self.sizes: list[list[int]] = []
        self.go, self.failing = threading.Event(), failing
        monkeypatch.setattr(ingestion_module, "add_batches", self)

    def __call__(self, engine: Engine, batches: Sequence[Sequence[FlowRecord]]) -> list[Added]:
        self.sizes.append([len(records) for records in batches])
        if len(self.sizes) == 1:
            assert self.go.wait(60)
        if len(self.sizes) in self.failing:
            raise OperationalError("INSERT", {}, Exception("the disk is full"))
        return add_batches(engine, batches)


def _waiting(ingestion: Ingestion, count: int) -> bool:
    return len(ingestion._together._waiting) == count


def deliver(
    ingestion: Ingestion, batches: Mapping[str, Sequence[FlowRecord]]
) -> tuple[list[threading.Thread], dict[str, Any]]:
    """Deliver all at once, the first before the others. Returns what each call returned or raised,
    by its name."""
    results: dict[str, Any] = {}

    def add(name: str, records: Sequence[FlowRecord]) -> None:
        try:
            results[name] = ingestion.add(records)
        except OperationalError as error:
            results[name] = error

    threads = [threading.Thread(target=add, args=item) for item in batches.items()]
    for number, thread in enumerate(threads):
        thread.start()
        # The first one is being written; each later one waits.
        wait_until(partial(_waiting, ingestion, number), "the delivery waits")
    return threads, results


def test_add__what_came_while_another_was_written_is_written_together(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, ingestion = Slow(monkeypatch), Ingestion(engine)
    a, c = batch("a", 2), batch("c", 1)
    deliveries = {"a": a, "b": batch("b", 3), "c": [*a, *c], "d": c}
    threads, results = deliver(ingestion, deliveries)
    slow.go.set()
    for thread in threads:
        thread.join(60)
    assert slow.sizes == [[2], [3, 3, 1]]
    assert {name: added.new for name, added in results.items()} == {"a": 2, "b": 3, "c": 1, "d": 0}
    assert not any(added.conflicts for added in results.values())
    assert len(all_flows(engine)) == 6


def test_add__so_many_go_together_and_no_more(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingestion_module, "MOST_TOGETHER", 5)
    slow, ingestion = Slow(monkeypatch), Ingestion(engine)
    deliveries = {
        name: batch(name, count) for name, count in (("a", 1), ("b", 3), ("c", 2), ("d", 2), ("e", 9))
    }
    threads, results = deliver(ingestion, deliveries)
    slow.go.set()
    for thread in threads:
        thread.join(60)
    assert slow.sizes == [[1], [3, 2], [2], [9]]
    assert sum(added.new for added in results.values()) == 17


def test_add__a_store_that_fails_is_told_to_those_whose_records_it_did_not_take(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, ingestion = Slow(monkeypatch, failing=(2,)), Ingestion(engine)
    threads, results = deliver(ingestion, {name: batch(name, 1) for name in "abc"})
    slow.go.set()
    for thread in threads:
        thread.join(60)
    assert results["a"] == Added(1)
    assert isinstance(results["b"], OperationalError)
    assert isinstance(results["c"], OperationalError)
    assert ingestion.add(batch("b", 1)) == Added(1)


def test_add__nothing(engine: Engine) -> None:
    assert Ingestion(engine).add([]) == Added()


@pytest.mark.parametrize("failing", [(), (1,)])
def test_add__leaves_the_way_free(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, failing: Sequence[int]
) -> None:
    slow, ingestion = Slow(monkeypatch, failing), Ingestion(engine)
    slow.go.set()
    try:
        ingestion.add(batch("a", 1))
    except OperationalError:
        assert failing
    with ingestion.alone():
        pass
    assert ingestion.add(batch("b", 1)) == Added(1)


def test_alone__on_postgresql_a_delivery_waits_for_no_other_task(engine: Engine) -> None:
    ingestion = Ingestion(engine)
    with ingestion.alone():
        done = threading.Thread(target=ingestion.add, args=[batch("a", 1)], daemon=True)
        done.start()
        done.join(20 if engine.dialect.name == "postgresql" else 0.2)
        assert done.is_alive() == (engine.dialect.name == "sqlite")
    done.join(60)
    assert len(all_flows(engine)) == 1


def test_take__a_receipt_has_the_epoch_in_which_its_transaction_began(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingestion, durable = Ingestion(engine), Durable(engine, threading.Event())
    ingestion.durable = durable
    durable._begin_epoch()
    before = durable.epoch

    def crash(*given: Any, **named: Any) -> list[Added]:
        durable._end_epoch()
        durable._begin_epoch()
        return add_batches(*given, **named)

    assert ingestion.take(batch("a", 1), may_be_early=True).receipt == f"{before}.1"
    monkeypatch.setattr(ingestion_module, "add_batches", crash)
    assert ingestion.take(batch("b", 1), may_be_early=True).receipt == f"{before}.0"


def test_take__has_no_receipt_if_someone_waits_for_the_device_or_there_is_no_epoch(engine: Engine) -> None:
    ingestion, durable = Ingestion(engine), Durable(engine, threading.Event())
    assert ingestion.take(batch("a", 1), may_be_early=True).receipt is None
    ingestion.durable = durable
    assert ingestion.take(batch("b", 1), may_be_early=True).receipt is None
    durable._begin_epoch()
    assert ingestion.take(batch("c", 1), may_be_early=False).receipt is None
