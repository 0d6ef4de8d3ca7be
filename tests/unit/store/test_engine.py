# SPDX-License-Identifier: Apache-2.0
"""A store's file: its engine, its migration, its rows of desired state and its lease; and a power failure."""

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import Engine, create_engine, inspect, text
from sqlalchemy.exc import OperationalError

from sluice.hostagent.spool import Spool
from sluice.policy.errors import EnvironmentLacking, FieldError
from sluice.policy.schema.desired import Policy
from sluice.policy.version import VERSION
from sluice.policy.wire.records import SCHEDULED
from sluice.runtime.wait import wait_until
from sluice.store import desired, lease, observed
from sluice.store.desired import put_policy
from sluice.store.engine import open_store
from sluice.store.flows import add_flows, all_flows, last_sequence
from sluice.store.observed import Sanction, all_sanctions, put_sanction
from sluice.store.schema import RETIRED_TABLES, SCHEMA_VERSION, flows, metadata, schema_versions
from tests.kit.known import known
from tests.kit.small_disk import Device
from tests.unit.webui.records import flow

OPENERS = 6


def test_open_store__of_many_that_open_a_new_file_at_once_none_is_refused(tmp_path: Path) -> None:
    for number in range(4):
        url, all_here = f"sqlite:///{tmp_path}/{number}.db", Barrier(OPENERS)

        def opened(_: int, url: str = url, all_here: Barrier = all_here) -> set[str]:
            all_here.wait()
            engine = open_store(url)
            names = inspect(engine).get_table_names()
            engine.dispose()
            return set(names)

        with ThreadPoolExecutor(OPENERS) as pool:
            for names in pool.map(opened, range(OPENERS)):
                assert set(metadata.tables) <= names


def test_open_store__refuses_the_store_of_a_later_version(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    engine = open_store(url)
    with engine.begin() as connection:
        connection.execute(schema_versions.insert().values(version=SCHEMA_VERSION + 1, sluice="9.1.0"))
    engine.dispose()
    expected = (
        rf"schema {SCHEMA_VERSION + 1} of Sluice 9\.1\.0, but this is Sluice {VERSION} .*upgrade this package"
    )
    with pytest.raises(EnvironmentLacking, match=expected):
        open_store(url)


TCP = Policy.from_document({"scheme": "tcp"})
PIAS = Policy.from_document({"scheme": "pias"})


@pytest.mark.parametrize("url", ["nonsense", "mysql://x/y", "postgresql+nonsense://x/y"])
def test_open_store__a_bad_url_names_what_to_write(url: str) -> None:
    with pytest.raises(FieldError, match=r"postgresql\+psycopg"):
        open_store(url)


def test_progress__the_newest_version_and_when_it_was_applied(engine: Engine) -> None:
    assert desired.progress(engine) == desired.Progress(0, None)
    old = put_policy(engine, TCP, "a")
    desired.mark_applied(engine, old)
    applied = known(desired.policy_version(engine, old)).applied_at
    assert applied is not None
    desired.mark_applied(engine, old)
    assert desired.progress(engine) == desired.Progress(old, applied), "the first time stays"
    new = put_policy(engine, PIAS, "b")
    assert desired.progress(engine) == desired.Progress(new, None)


@pytest.fixture
def leases(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """The table of leases. A busy machine may answer later than a holder waits."""
    monkeypatch.setattr(lease, "WAIT_MS", 60_000)
    leases = lease.open_for_leases(store_url)
    yield leases
    leases.dispose()


def test_the_first_to_come_has_it_and_nobody_else(leases: Engine) -> None:
    assert lease.look(leases, "work") is None
    mine = known(lease.take(leases, "work", "a", None))
    assert mine == lease.look(leases, "work")
    assert lease.take(leases, "work", "b", None) is None
    assert known(lease.look(leases, "work")).holder == "a"


def test_a_generation_begins_beyond_those_of_stores_made_before(leases: Engine) -> None:
    """Switches remember generations, so a new store must not begin below them."""
    assert known(lease.take(leases, "work", "a", None)).generation > 1_700_000_000


def test_who_has_seen_an_earlier_row_changes_nothing(leases: Engine) -> None:
    seen = known(lease.take(leases, "work", "a", None))
    renewed = known(lease.renew(leases, seen))
    assert lease.take(leases, "work", "b", seen) is None
    taken = known(lease.take(leases, "work", "b", renewed))
    assert lease.renew(leases, renewed) is None
    lease.release(leases, renewed)
    assert lease.look(leases, "work") == taken


def test_of_many_who_reach_for_it_at_once_one_gets_it(store_url: str, leases: Engine) -> None:
    seen = known(lease.take(leases, "work", "before", None))
    got, together = [], threading.Barrier(8)

    def reach(name: str) -> None:
        own = lease.open_for_leases(store_url)
        together.wait()
        got.append(lease.take(own, "work", name, seen))
        own.dispose()

    threads = [threading.Thread(target=reach, args=(f"t{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [taken for taken in got if taken is not None]
    assert lease.look(leases, "work") == winner


def opened_in_time(store_url: str) -> Engine | None:
    try:
        return lease.open_for_leases(store_url)
    except OperationalError:
        return None


def test_fenced__nobody_takes_the_lease_during_a_transaction_in_its_name(
    leases: Engine, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction stays open for as long as a slow machine needs."""
    monkeypatch.setattr("sluice.store.connections.HOLDER_IDLE_S", 300.0)
    store = open_store(store_url)
    mine = known(lease.take(leases, "work", "a", None))
    monkeypatch.setattr(lease, "WAIT_MS", 500)
    other = wait_until(lambda: opened_in_time(store_url), "the store answers within that time")
    with (
        lease.fenced(store, "work", mine.generation).begin(),
        pytest.raises(OperationalError, match=r"lock|timeout"),
    ):
        lease.take(other, "work", "b", mine)
    assert lease.take(leases, "work", "b", mine) is not None
    other.dispose()
    store.dispose()


def test_fenced__a_transaction_of_a_former_holder_writes_nothing(leases: Engine, store_url: str) -> None:
    store = open_store(store_url)
    mine = known(lease.take(leases, "work", "a", None))
    former = lease.fenced(store, "work", mine.generation)
    observed.add_event(former, "early")
    lease.take(leases, "work", "b", mine)
    with pytest.raises(lease.Deposed, match=rf"generation {mine.generation + 1}.*{mine.generation}"):
        observed.add_event(former, "late")
    observed.add_event(store, "not fenced")
    assert [event["kind"] for event in observed.events_after(store, 0)] == ["early", "not fenced"]
    store.dispose()


OLD_FLOWS = """
CREATE TABLE flows (
    sequence {number} NOT NULL, id VARCHAR NOT NULL, src VARCHAR NOT NULL, dst VARCHAR NOT NULL, bytes BIGINT NOT NULL,
    size_class VARCHAR NOT NULL, started_at FLOAT NOT NULL, fct_us FLOAT, ideal_us FLOAT NOT NULL, deadline_us FLOAT,
    met BOOLEAN, retransmissions BIGINT NOT NULL, congestion_control VARCHAR NOT NULL, scheme VARCHAR NOT NULL,
    status VARCHAR NOT NULL, reason VARCHAR NOT NULL, received_at FLOAT NOT NULL, PRIMARY KEY (sequence), UNIQUE (id)
);
INSERT INTO flows (id, src, dst, bytes, size_class, started_at, fct_us, ideal_us, retransmissions, congestion_control,
    scheme, status, reason, received_at)
VALUES ('run/1', 'h1', 'h2', 10000, 'small', 1e9, 2000.0, 1000.0, 3, 'cubic', 'tcp', 'finished', '', 1e9);
CREATE INDEX flows_by_reception ON flows (received_at);
CREATE TABLE capture_files (id VARCHAR NOT NULL, kept_s FLOAT NOT NULL, PRIMARY KEY (id))
"""


def test_a_store_of_an_earlier_version_keeps_its_flows_and_takes_new_ones(store_url: str) -> None:
    """Several processes may open it at once."""
    bare = create_engine(store_url)
    number = "SERIAL" if bare.dialect.name == "postgresql" else "INTEGER"
    with bare.begin() as connection:
        for statement in OLD_FLOWS.format(number=number).split(";"):
            connection.execute(text(statement))
    with ThreadPoolExecutor(8) as pool:
        engines = list(pool.map(open_store, [store_url] * 8))
    assert [len(all_flows(engine)) for engine in engines] == [1] * 8
    engine = engines[0]
    (kept,) = all_flows(engine)
    assert (kept.id, kept.retransmissions, kept.ideal_us, kept.source) == ("run/1", 3, 1000.0, SCHEDULED)
    watched = flow("w/1", source="watched", ideal_us=None, src_port=40_000, dst_port=80, lasted_us=5e6)
    assert add_flows(engine, [watched, kept]) == 1
    assert last_sequence(engine) > 1
    there = inspect(engine)
    columns = {column["name"]: column["nullable"] for column in there.get_columns("flows")}
    assert columns == {column.name: column.nullable for column in flows.columns}
    assert {index["name"] for index in there.get_indexes("flows")} == {"flows_by_source"}
    assert not {*there.get_table_names()} & {"flows_before", "capture_files"}
    assert {*metadata.tables} <= {*there.get_table_names()}
    for each in (bare, *engines):
        each.dispose()


def test_a_store_without_limits_of_demoted_hosts_takes_them(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    open_store(f"sqlite:///{path}").dispose()
    before = Sanction("s1:2", "h2", "TCP a > b", 1, 2_000_000, 500_000, 0.95, 1, 5.0, since=100.0)
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE sanctions DROP COLUMN rate_bps")
        names = [row[1] for row in connection.execute("PRAGMA table_info(sanctions)")]
        marks = ",".join("?" * len(names))
        row = [vars(before)[name] for name in names]
        connection.execute(f"INSERT INTO sanctions ({','.join(names)}) VALUES ({marks})", row)
    engine = open_store(f"sqlite:///{path}")
    limited = replace(before, port="s1:3", rate_bps=1_000_000)
    put_sanction(engine, limited)
    assert all_sanctions(engine) == [before, limited]
    engine.dispose()


def test_tables_of_earlier_versions_go_and_the_lease_of_controllers_that_shared_switches_can_be_taken(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    open_store(f"sqlite:///{path}").dispose()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE members (name VARCHAR PRIMARY KEY, beat BIGINT NOT NULL)")
        connection.execute(
            "CREATE TABLE parts (part BIGINT PRIMARY KEY, holder VARCHAR NOT NULL, generation BIGINT NOT NULL)"
        )
        connection.execute("CREATE TABLE alerts (rule VARCHAR NOT NULL, PRIMARY KEY (rule))")
        connection.execute("INSERT INTO alerts VALUES ('agent-down')")
        connection.execute("INSERT INTO leases VALUES ('controller', 'shared', 9, 4, 0.0)")
    engine = open_store(f"sqlite:///{path}")
    taken = lease.take(engine, "controller", "me", lease.look(engine, "controller"))
    assert taken is not None
    assert taken.generation == 10
    assert not set(RETIRED_TABLES) & set(inspect(engine).get_table_names())
    engine.dispose()


# ── What a power failure takes from a store and from a spool, with and without fsync ───────────


_STORE = """
import sys, itertools
from sluice.store.engine import open_store
from sluice.store.flows import add_flows
from tests.kit.flows import record
engine = open_store(f"sqlite:///{{sys.argv[1]}}/store.db", fsync={fsync})
for number in itertools.count():
    add_flows(engine, [record(number)])
    print(number, flush=True)  # the web process answers now, and the agent forgets the record
"""
_SPOOL = """
import sys, itertools
from pathlib import Path
from sluice.hostagent.spool import Spool
from tests.kit.flows import record
spool = Spool(Path(sys.argv[1]), segment_bytes=2000, fsync={fsync})
for number in itertools.count():
    spool.append(record(number))
    if number % 10 == 9:
        spool.sync()
    print(number, flush=True)
"""
LINES = 45


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return Device(tmp_path / "device")


def stored(device: Device) -> set[str]:
    engine = open_store(f"sqlite:///{device.files}/store.db")
    try:
        return {flow.id for flow in all_flows(engine)}
    finally:
        engine.dispose()


def spooled(device: Device) -> set[str]:
    return Spool(device.files).ids()


@pytest.mark.slow
def test_store__with_fsync_no_accepted_record_is_lost(device: Device) -> None:
    accepted = device.fail_during(_STORE.format(fsync=True), LINES)
    assert {f"run/{number}" for number in accepted} <= stored(device)


@pytest.mark.slow
def test_store__without_fsync_accepted_records_are_lost_and_the_store_is_whole(device: Device) -> None:
    accepted = device.fail_during(_STORE.format(fsync=False), LINES)
    left = stored(device)
    assert len(left) < len(accepted)
    assert left == {f"run/{number}" for number in range(len(left))}  # the oldest ones


def test_spool__with_fsync_the_records_since_the_last_sync_are_lost(device: Device) -> None:
    device.fail_during(_SPOOL.format(fsync=True), LINES)
    assert {f"run/{number}" for number in range(40)} <= spooled(device)
