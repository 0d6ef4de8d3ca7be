# SPDX-License-Identifier: Apache-2.0
"""A real PostgreSQL server, and a real web process with several workers on either store."""

from collections.abc import Iterator

import psutil
import pytest
from sqlalchemy import Engine

from sluice.runtime.postgres import PostgresServer
from sluice.runtime.wait import wait_until
from sluice.store.engine import open_store
from tests.web.conftest import PATIENCE_S, Server

WORKERS = 2


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    """The URL of an empty database."""
    return postgres.new_database()


@pytest.fixture
def engine(database: str) -> Iterator[Engine]:
    engine = open_store(database, fsync=True)
    yield engine
    engine.dispose()


def workers_of(server: Server) -> list[psutil.Process]:
    assert server.process is not None
    children: list[psutil.Process] = psutil.Process(server.process.pid).children()
    return children


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.pg)])
def workers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A web process of WORKERS workers on a store of either kind. The tests of a file share it."""
    folder = tmp_path_factory.mktemp("workers")
    store_url = f"sqlite:///{folder}/store.db"
    if request.param == "postgresql":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        store_url = postgres.new_database()
    server = Server(folder, store_url, "--workers", str(WORKERS))
    server.start()
    wait_until(lambda: len(workers_of(server)) == WORKERS, "all workers run", timeout_s=PATIENCE_S)
    yield server
    server.stop()
