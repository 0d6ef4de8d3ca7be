# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from sluice.policy.wire.records import FlowRecord
from sluice.store.flows import Added, all_flows
from sluice.webui import ingestion as ingestion_module
from sluice.webui.ingestion import Ingestion
from tests.unit.webui.records import record


def batch(name: str, count: int) -> list[FlowRecord]:
    return [FlowRecord.from_document(record(f"{name}.{i}")) for i in range(count)]


def test_add__deliveries_that_arrive_at_one_moment_are_all_kept(engine: Engine) -> None:
    ingestion, shared = Ingestion(engine), batch("shared", 1)
    results: dict[str, Added] = {}

    def deliver(name: str) -> None:
        results[name] = ingestion.add([*batch(name, 3), *shared])

    threads = [threading.Thread(target=deliver, args=[name]) for name in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(added.new for added in results.values()) == [3, 3, 3, 3, 3, 4]
    assert not any(added.conflicts for added in results.values())
    assert len(all_flows(engine)) == 19


def test_add__nothing(engine: Engine) -> None:
    assert Ingestion(engine).add([]) == Added()


def test_add__after_an_error_the_way_is_free(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Added:
        raise OperationalError("INSERT", {}, Exception("the disk is full"))

    ingestion = Ingestion(engine)
    with monkeypatch.context() as patched:
        patched.setattr(ingestion_module, "add_batch", full)
        with pytest.raises(OperationalError):
            ingestion.add(batch("a", 1))
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
