# SPDX-License-Identifier: Apache-2.0
"""A process that is stopped (SIGSTOP) amid a transaction keeps its locks only for a while."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError, OperationalError

from sluice.runtime.process import die_with_parent
from sluice.runtime.wait import wait_until
from sluice.store import connections, lease
from sluice.store.connections import end_stuck_copies, one_after_another
from sluice.store.engine import open_store
from sluice.store.failures import is_outage
from sluice.store.flows import add_flows, count_flows
from sluice.store.lease import open_for_leases
from tests.pg.records import batch

pytestmark = pytest.mark.pg

SOON_S = 1
PATIENCE_S = 300.0
TAKE_OVER_S = 3.0
_HOLD = """
import sys, threading
from sluice.store import lease
from sluice.store.engine import open_store
store, leases = open_store(sys.argv[1]), lease.open_for_leases(sys.argv[1])
with lease.fenced(store, "task", lease.take(leases, "task", "a", None).generation).begin():
    print("holds the lock", flush=True)
    threading.Event().wait()
"""
_COPY = """
import sys, threading
from sluice.store import connections
connections.IDLE_TRANSACTION_S = 1
from sluice.store.engine import engine_of
from sluice.store.connections import one_after_another
with engine_of(sys.argv[1]).begin() as connection:
    one_after_another(connection, "flows")
    copying = connection.connection.driver_connection.cursor().copy("COPY flows (id) FROM STDIN")
    copying.__enter__()
    print("holds the lock", flush=True)
    threading.Event().wait()
"""


@contextmanager
def stopped(script: str, *arguments: str) -> Iterator[None]:
    """A script that is stopped once it holds the lock."""
    argv = [sys.executable, "-c", script, *arguments]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, preexec_fn=die_with_parent)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"holds the lock\n"
        process.send_signal(signal.SIGSTOP)
        yield
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def holders(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(
            connection.execute(text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")).scalar_one()
        )


def test_a_controller_that_is_stopped_amid_a_transaction_can_be_replaced_in_time(database: str) -> None:
    engine = open_for_leases(database)

    def is_taken() -> bool:
        try:
            return lease.take(engine, "task", "b", lease.look(engine, "task")) is not None
        except OperationalError:  # the wait for the lock is short
            return False

    with stopped(_HOLD, database):
        assert not is_taken()
        wait_until(is_taken, "another one holds it", timeout_s=TAKE_OVER_S)
    engine.dispose()


def test_every_connection_has_the_limits_and_settings_in_the_url_stay(database: str) -> None:
    """A connection also ends soon after the network has lost it."""
    given = open_store(f"{database}&connect_timeout=77&options=-c%20statement_timeout%3D77s")
    store, leases = open_store(database, fsync=True), open_for_leases(database)
    idle, lost_ms = f"{connections.IDLE_TRANSACTION_S}s", connections.TCP["tcp_user_timeout"]
    for engine, limit, lost, connect in (
        (store, idle, lost_ms, connections.TCP["connect_timeout"]),
        (given, idle, lost_ms, 77),
        (leases, f"{connections.HOLDER_IDLE_S * 1000:.0f}ms", 1000, 1),
    ):
        with engine.connect() as connection:
            assert shown(connection, "idle_in_transaction_session_timeout") == limit
            driver = connection.connection.driver_connection
            assert driver is not None
            parameters = driver.info.get_parameters()
            assert parameters["tcp_user_timeout"] == str(lost)
            assert parameters["connect_timeout"] == str(connect)
    with given.connect() as connection:
        settings = [shown(connection, name) for name in ("statement_timeout", "synchronous_commit")]
        assert settings == ["77s", "off"]
    for engine in (store, given, leases):
        engine.dispose()


def shown(connection: Connection, setting: str) -> str:
    return str(connection.execute(text(f"SHOW {setting}")).scalar_one())


def test_a_process_that_wakes_up_after_the_limit_gets_an_error_and_a_new_connection(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    monkeypatch.setattr(connections, "IDLE_TRANSACTION_S", SOON_S)
    sleeper = open_store(database)

    def sleep() -> None:
        with sleeper.begin() as connection:
            one_after_another(connection, "flows")
            assert holders(engine) == 1
            wait_until(lambda: not holders(engine), "the server has ended it", timeout_s=PATIENCE_S)
            assert add_flows(engine, batch(1)) == 1
            connection.execute(text("SELECT 1"))

    with pytest.raises(DBAPIError) as caught:
        sleep()
    assert is_outage(caught.value)
    assert add_flows(sleeper, batch(1, first=1)) == 1
    sleeper.dispose()


def test_a_copy_of_a_stopped_process_is_ended(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    with stopped(_COPY, database):
        assert end_stuck_copies(engine) == 0  # it may still go on
        monkeypatch.setattr(connections, "IDLE_TRANSACTION_S", SOON_S)
        wait_until(lambda: end_stuck_copies(engine) == 1, "the copy is old enough", timeout_s=PATIENCE_S)
        wait_until(lambda: not holders(engine), "its lock is free", timeout_s=PATIENCE_S)
        assert add_flows(engine, batch(1)) == 1
    assert count_flows(engine) == 1
