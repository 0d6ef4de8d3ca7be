# SPDX-License-Identifier: Apache-2.0
"""A real PostgreSQL server, and a real web process with several workers on either store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from sqlalchemy import Engine

from sluice.runtime.postgres import PostgresServer
from sluice.runtime.wait import wait_until
from sluice.store.engine import open_store
from tests.web.conftest import PATIENCE_S, Server

WORKERS = 3


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


@pytest.fixture
def workers(tmp_path: Path, store_url: str) -> Iterator[Server]:
    """A web process of WORKERS workers."""
    server = Server(tmp_path, store_url, "--workers", str(WORKERS))
    server.start()
    wait_until(lambda: len(workers_of(server)) == WORKERS, "all workers run", timeout_s=PATIENCE_S)
    yield server
    server.stop()
