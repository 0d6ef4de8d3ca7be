# SPDX-License-Identifier: Apache-2.0
"""A server of PostgreSQL that crashes amid deliveries: nothing that was answered is lost or doubled."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from sqlalchemy import Engine

from sluice.hostagent.reporter import Courier
from sluice.hostagent.spool import Spool
from sluice.runtime.http_client import HttpClient, ServerAway
from sluice.runtime.postgres import PostgresServer
from sluice.runtime.wait import wait_until
from sluice.store.engine import open_store
from sluice.store.flows import add_flows, all_flows, count_flows, last_sequence
from sluice.store.totals import FLOWS, all_totals
from tests.pg.records import batch, kept, parts
from tests.web.conftest import Server

pytestmark = pytest.mark.pg

PATIENCE_S = 300.0


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


def crash(server: PostgresServer, store: Engine) -> None:
    server.restart(crash=True)
    store.dispose()


def test_a_crash_takes_no_record_that_was_answered(forgetful: PostgresServer, store: Engine) -> None:
    for first in range(0, 12, 4):
        add_flows(store, batch(4, first))
        crash(forgetful, store)
        assert kept(store) == list(range(first + 4))
    assert sum(total.value for total in all_totals(store)[FLOWS.name]) == count_flows(store)


def test_without_fsync__a_crash_may_take_the_last_records_and_the_store_is_whole(
    forgetful: PostgresServer,
) -> None:
    """The server also writes its log now and then without being asked. Then no record is lost."""
    url = forgetful.new_database()
    open_store(url, fsync=True).dispose()
    unsynced = open_store(url, fsync=False)
    for first in range(0, 40, 4):
        add_flows(unsynced, batch(4, first))
        crash(forgetful, unsynced)
        if len(kept(unsynced)) < first + 4:
            break
    else:
        pytest.fail("no crash took anything")
    assert sum(total.value for total in all_totals(unsynced).get(FLOWS.name, ())) == count_flows(unsynced)
    assert add_flows(unsynced, batch(4, first)) == 4, "they were lost, so they are new"
    unsynced.dispose()


def test_an_orderly_restart_of_the_server_skips_no_number(forgetful: PostgresServer, store: Engine) -> None:
    add_flows(store, batch(3))
    forgetful.restart()
    store.dispose()
    add_flows(store, batch(2, first=3))
    assert last_sequence(store) == 5
    open_store(store.url.render_as_string(hide_password=False)).dispose()
    assert len(parts(store)) == 2


def test_agents_deliver_through_crashes_of_the_server__every_record_is_kept_once(
    forgetful: PostgresServer, tmp_path: Path
) -> None:
    """A real web process, real spools, and a server that crashes amid the deliveries and loses what it can."""
    server = Server(tmp_path, forgetful.new_database())
    server.start()
    spools = [Spool(tmp_path / f"spool{i}", segment_bytes=4000) for i in range(3)]
    couriers = [Courier(spool, HttpClient(f"unix:{server.socket_path}").post) for spool in spools]
    number = 0

    def turn() -> None:
        nonlocal number
        for spool in spools:
            for _ in range(5):
                spool.append(batch(1, first=number)[0])
                number += 1
        for courier in couriers:
            try:
                courier.deliver()
            except ServerAway:
                continue

    try:
        for turns in (7, 15):
            for _ in range(turns):
                turn()
            forgetful.restart(crash=True)
        wait_until(lambda: settled(couriers, spools), "all is delivered", timeout_s=2 * PATIENCE_S)
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
