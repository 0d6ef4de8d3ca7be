# SPDX-License-Identifier: Apache-2.0
"""A real PostgreSQL server, and a real web process with several workers on either store."""

from __future__ import annotations

import psutil
import pytest

from runtime.wait import wait_until
from store.engine import open_store
from tests.web.conftest import PATIENCE_S, Server

WORKERS = 3


@pytest.fixture
def database(postgres):
    """The URL of an empty one."""
    return postgres.new_database()


@pytest.fixture
def engine(database):
    engine = open_store(database)
    yield engine
    engine.dispose()


def workers_of(server):
    return psutil.Process(server.process.pid).children()


@pytest.fixture
def workers(tmp_path, store_url):
    """A web process of WORKERS workers."""
    server = Server(tmp_path, store_url, "--workers", str(WORKERS))
    server.start()
    wait_until(lambda: len(workers_of(server)) == WORKERS, "all workers run", timeout_s=PATIENCE_S)
    yield server
    server.stop()
