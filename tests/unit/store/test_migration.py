# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import inspect

from sluice.policy.wire.records import SCHEDULED, FlowRecord
from sluice.store import lease
from sluice.store.engine import open_store
from sluice.store.flows import add_flows, all_flows
from sluice.store.observed import Sanction, all_sanctions, put_sanction
from sluice.store.schema import RETIRED_TABLES
from tests.unit.webui.records import record

OLD_FLOWS = """
CREATE TABLE flows (
    sequence INTEGER NOT NULL, id VARCHAR NOT NULL, src VARCHAR NOT NULL, dst VARCHAR NOT NULL, bytes BIGINT NOT NULL,
    size_class VARCHAR NOT NULL, started_at FLOAT NOT NULL, fct_us FLOAT, ideal_us FLOAT NOT NULL, deadline_us FLOAT,
    met BOOLEAN, retransmissions BIGINT NOT NULL, congestion_control VARCHAR NOT NULL, scheme VARCHAR NOT NULL,
    status VARCHAR NOT NULL, reason VARCHAR NOT NULL, received_at FLOAT NOT NULL, PRIMARY KEY (sequence), UNIQUE (id)
);
CREATE INDEX flows_by_reception ON flows (received_at);
CREATE TABLE capture_files (id VARCHAR NOT NULL, pcap BLOB NOT NULL, kept_s FLOAT NOT NULL, PRIMARY KEY (id));
"""
ROW = (
    7,
    "run/1",
    "h1",
    "h2",
    10_000,
    "small",
    1e9,
    2000.0,
    1000.0,
    None,
    None,
    3,
    "cubic",
    "tcp",
    "finished",
    "",
    1e9,
)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Return the file of a store as an earlier version made it, with one flow."""
    path = tmp_path / "store.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(OLD_FLOWS)
        connection.execute(f"INSERT INTO flows VALUES ({','.join('?' * len(ROW))})", ROW)
    return path


def columns(path: Path) -> dict[str, bool]:
    """Return column → whether it must not be null."""
    with sqlite3.connect(path) as connection:
        return {row[1]: bool(row[3]) for row in connection.execute("PRAGMA table_info(flows)")}


def test_a_store_of_an_earlier_version_keeps_its_flows_and_takes_new_ones(old: Path, tmp_path: Path) -> None:
    engine = open_store(f"sqlite:///{old}")
    (kept,) = all_flows(engine)
    assert (kept.id, kept.retransmissions, kept.ideal_us, kept.source) == ("run/1", 3, 1000.0, SCHEDULED)
    watched = record("w/1", source="watched", ideal_us=None, src_port=40_000, dst_port=80, lasted_us=5e6)
    assert add_flows(engine, [FlowRecord.from_document(watched), kept]) == 1
    engine.dispose()
    new = tmp_path / "new.db"
    open_store(f"sqlite:///{new}").dispose()
    assert columns(old) == columns(new)
    with sqlite3.connect(old) as connection:
        indexes = {row[1] for row in connection.execute("PRAGMA index_list(flows)")}
        assert "flows_by_source" in indexes
        assert "flows_by_reception" not in indexes
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        assert not tables & {"flows_before", "capture_files"}
        assert connection.execute("SELECT max(sequence) FROM flows").fetchone() == (8,)


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


def test_the_rows_of_controllers_that_shared_switches_go_and_the_lease_stays_to_be_taken(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    open_store(f"sqlite:///{path}").dispose()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE members (name VARCHAR PRIMARY KEY, beat BIGINT NOT NULL)")
        connection.execute(
            "CREATE TABLE parts (part BIGINT PRIMARY KEY, holder VARCHAR NOT NULL, generation BIGINT NOT NULL)"
        )
        connection.execute("INSERT INTO leases VALUES ('controller', 'shared', 9, 4, 0.0)")
    engine = open_store(f"sqlite:///{path}")
    taken = lease.take(engine, "controller", "me", lease.look(engine, "controller"))
    assert taken is not None
    assert taken.generation == 10
    assert not {"members", "parts"} & set(inspect(engine).get_table_names())
    engine.dispose()


def test_several_processes_may_open_it_at_once(old: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        engines = list(pool.map(open_store, [f"sqlite:///{old}"] * 8))
    assert [len(all_flows(engine)) for engine in engines] == [1] * 8
    for engine in engines:
        engine.dispose()


def test_tables_of_earlier_versions_go(old: Path) -> None:
    with sqlite3.connect(old) as connection:
        connection.execute("CREATE TABLE alerts (rule VARCHAR NOT NULL, PRIMARY KEY (rule))")
        connection.execute("INSERT INTO alerts VALUES ('agent-down')")
    open_store(f"sqlite:///{old}").dispose()
    with sqlite3.connect(old) as connection:
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    assert not names & set(RETIRED_TABLES)
