# SPDX-License-Identifier: Apache-2.0
"""Deliveries that are answered before the device has them, and a server that crashes: nothing is lost or doubled."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from sqlalchemy import Engine

from sluice.hostagent.courier import Courier
from sluice.hostagent.spool import Spool
from sluice.policy.wire.records import FlowRecord
from sluice.runtime.http_client import HttpClient, ServerAway
from sluice.runtime.postgres import PostgresServer
from sluice.runtime.wait import wait_until
from sluice.store.engine import open_store
from sluice.store.flow_columns import flow_columns_after
from sluice.store.flows import add_batches, add_flows, all_flows, count_flows, last_sequence
from sluice.store.totals import FLOWS, all_totals
from sluice.webui import durable as durable_module
from sluice.webui.durable import Durable
from sluice.webui.ingestion import Ingestion
from tests.pg.test_partitions import batch, kept, parts
from tests.web.conftest import Server

pytestmark = pytest.mark.pg

PATIENCE_S = 60.0


class Forgetful(PostgresServer):
    """A server that writes its log only when someone waits for it. So a crash takes what no one has waited for."""

    def run(self) -> None:
        super().run()
        wait_until(self._writers, "the process that writes the log runs", timeout_s=PATIENCE_S)
        for writer in self._writers():
            writer.suspend()

    def end(self, *, crash: bool = False) -> None:
        for writer in self._writers():
            writer.kill() if crash else writer.resume()
        super().end(crash=crash)

    def _writers(self) -> list[psutil.Process]:
        """The process that writes the log in the background, if it runs."""
        if self._process is None:
            return []
        children = psutil.Process(self._process.pid).children()
        return [child for child in children if "walwriter" in _title(child)]


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""  # it has ended


@pytest.fixture(scope="module")
def forgetful() -> Iterator[PostgresServer]:
    with Forgetful.start() as server:
        yield server


@pytest.fixture
def store(forgetful: PostgresServer) -> Iterator[Engine]:
    engine = open_store(forgetful.new_database(), fsync=True)
    yield engine
    engine.dispose()


@pytest.fixture
def stopping() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def begun(durable: Durable) -> Durable:
    durable.start()
    wait_until(lambda: durable.epoch, "an epoch begins", timeout_s=PATIENCE_S)
    return durable


def reach(durable: Durable, receipt: str | None) -> None:
    assert receipt is not None
    epoch, _, number = receipt.partition(".")

    def is_reached() -> bool:
        at = (durable.reached or ".").split(".")
        return at[0] == epoch and int(at[1]) >= int(number)

    wait_until(is_reached, "the device has it", timeout_s=PATIENCE_S)


def crash(server: PostgresServer, store: Engine) -> None:
    server.restart(crash=True)
    store.dispose()


def lose(server: PostgresServer, store: Engine) -> tuple[range, int]:
    """Have a crash take records that did not wait. Returns their names, and the last number that a reader had seen.

    The server also writes its log now and then without being asked. Then no record is lost, and it is tried again.
    """
    for first in range(1000, 1100, 10):
        names = range(first, first + 4)
        add_flows(store, batch(1, first + 9))  # after a crash, the first transaction always waits
        add_batches(store, [batch(4, first)], on_device=False)
        assert set(names) <= set(kept(store)), "readers see them at once"
        seen = last_sequence(store)
        crash(server, store)
        if not set(names) & set(kept(store)):
            return names, seen
    pytest.fail("no crash took anything")


def test_a_crash_takes_what_did_not_wait_and_keeps_what_did(forgetful: PostgresServer, store: Engine) -> None:
    add_flows(store, batch(3))
    lose(forgetful, store)
    assert set(range(3)) <= set(kept(store))
    assert sum(total.value for total in all_totals(store)[FLOWS.name]) == count_flows(store)


def test_a_later_transaction_that_waits_takes_the_earlier_ones_with_it(
    forgetful: PostgresServer, store: Engine
) -> None:
    add_batches(store, [batch(4)], on_device=False)
    add_flows(store, batch(1, first=4))
    crash(forgetful, store)
    assert kept(store) == list(range(5))


def test_after_a_crash_no_number_comes_again_so_a_reader_misses_nothing(
    forgetful: PostgresServer, store: Engine
) -> None:
    add_flows(store, batch(3))
    lost, seen = lose(forgetful, store)
    assert add_batches(store, [batch(2, lost[2])], on_device=False)[0].new == 2, (
        "they were lost, so they are new"
    )
    columns, last = flow_columns_after(store, seen, 0.0)
    assert len(columns) == 2
    assert last > seen
    before = kept(store)
    add_batches(store, [batch(1, first=7)], on_device=False)
    assert last_sequence(store) == last + 1, "it goes on from there"
    crash(forgetful, store)
    assert kept(store)[: len(before)] == before, "the first transaction of the new numbers was on the device"


def test_an_orderly_restart_of_the_server_skips_no_number(forgetful: PostgresServer, store: Engine) -> None:
    add_flows(store, batch(3))
    forgetful.restart()
    store.dispose()
    add_flows(store, batch(2, first=3))
    assert last_sequence(store) == 5
    open_store(store.url.render_as_string(hide_password=False)).dispose()
    assert len(parts(store)) == 2


def test_a_receipt_is_reached_only_if_the_device_has_the_records(
    forgetful: PostgresServer, store: Engine, stopping: threading.Event
) -> None:
    ingestion = Ingestion(store)
    ingestion.durable = begun(Durable(store, stopping))
    taken = ingestion.take(batch(5), may_be_early=True)
    assert taken.added.new == 5
    reach(ingestion.durable, taken.receipt)
    crash(forgetful, store)
    assert kept(store) == list(range(5))


class Held(Durable):
    """Has nothing written until `go` is set."""

    def __init__(self, engine: Engine, stopping: threading.Event) -> None:
        super().__init__(engine, stopping)
        self.go = threading.Event()

    def _next(self) -> int:
        assert self.go.wait(PATIENCE_S)
        return super()._next()


def test_a_receipt_of_before_a_crash_is_never_reached(
    forgetful: PostgresServer, store: Engine, stopping: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_module, "RETRY_S", 0.05)
    ingestion, durable = Ingestion(store), Held(store, stopping)
    ingestion.durable = begun(durable)
    epoch = durable.epoch
    assert ingestion.take(batch(5), may_be_early=True).receipt == f"{epoch}.1"
    forgetful.restart(crash=True)
    assert durable.reached == f"{epoch}.0", "the thread has not seen the crash yet"
    again = ingestion.take(batch(5), may_be_early=True)
    assert again.receipt == f"{epoch}.2"
    durable.go.set()
    wait_until(lambda: durable.epoch not in ("", epoch), "a new epoch begins", timeout_s=PATIENCE_S)
    third = ingestion.take(batch(5), may_be_early=True)
    assert third.added.new == 0
    reach(durable, third.receipt)
    crash(forgetful, store)
    assert kept(store) == list(range(5))


def test_an_epoch_ends_with_the_first_error(
    forgetful: PostgresServer, store: Engine, stopping: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_module, "RETRY_S", 0.05)
    ingestion = Ingestion(store)
    durable = ingestion.durable = begun(Durable(store, stopping))
    epoch = durable.epoch
    forgetful.restart(crash=True)
    ingestion.take(batch(5), may_be_early=True)
    wait_until(lambda: durable.epoch not in ("", epoch), "a new epoch begins", timeout_s=PATIENCE_S)
    assert durable.receipt(epoch) == f"{epoch}.0"
    reach(durable, ingestion.take(batch(5), may_be_early=True).receipt)


def test_an_ordinary_user_can_have_the_log_written(forgetful: PostgresServer) -> None:
    url = forgetful.new_database()
    forgetful.sql("CREATE ROLE plain LOGIN")
    forgetful.sql("GRANT ALL ON SCHEMA public TO plain", url.partition("?")[0].rpartition("/")[2])
    engine = open_store(url.replace("sluice@", "plain@"), fsync=True)
    with engine.connect() as connection:
        connection.execute(durable_module._WRITE)
    add_flows(engine, batch(1))
    engine.dispose()


def record_of(number: int) -> FlowRecord:
    return batch(1, first=number)[0]


def test_agents_deliver_through_crashes_of_the_server__every_record_is_kept_once(
    forgetful: PostgresServer, tmp_path: Path
) -> None:
    """A real web process, real spools, and a server that crashes amid the deliveries and loses what it can."""
    server = Server(tmp_path, forgetful.new_database())
    server.start()
    spools = [Spool(tmp_path / f"spool{i}", segment_bytes=4000) for i in range(3)]
    couriers = [Courier(spool, HttpClient(f"unix:{server.socket_path}").post, early=True) for spool in spools]
    number = 0

    def turn() -> None:
        nonlocal number
        for spool in spools:
            for _ in range(5):
                spool.append(record_of(number))
                number += 1
        for courier in couriers:
            try:
                courier.deliver()
            except ServerAway:
                continue

    def some_wait() -> bool:
        """Deliver, and return whether an answer came before the device had the records."""
        turn()
        return any(courier._waiting for courier in couriers)

    try:
        for turns in (7, 23, 40):
            for _ in range(turns):
                turn()
            wait_until(some_wait, "an early answer", timeout_s=PATIENCE_S)
            forgetful.restart(crash=True)
        wait_until(lambda: settled(couriers, spools), "all is on the device", timeout_s=2 * PATIENCE_S)
    finally:
        server.stop()
    engine = open_store(server.store_url)
    found = sorted(int(flow.id) for flow in all_flows(engine))
    assert found == list(range(number))
    assert sum(total.value for total in all_totals(engine)[FLOWS.name]) == number
    engine.dispose()
    assert sum(courier.refused for courier in couriers) == 0


def settled(couriers: list[Courier], spools: list[Spool]) -> bool:
    for courier in couriers:
        try:
            courier.deliver()
        except ServerAway:
            return False
    return all(spool.depth == 0 for spool in spools)
