# SPDX-License-Identifier: Apache-2.0
"""Stores of either kind. Each is a copy, because that costs much less than to make its tables."""

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from sluice.runtime.postgres import PostgresServer
from sluice.store import partitions
from sluice.store.engine import engine_of, open_store


class Databases:
    """Copies of databases with a store's tables."""

    def __init__(self, server: PostgresServer) -> None:
        self._server, self._numbers = server, count()
        self._templates: dict[int, str | None] = {}
        """By the size of a partition."""

    def copy(self) -> str:
        size = partitions.PARTITION_RECORDS
        if size not in self._templates:
            url = self._server.new_database()
            open_store(url).dispose()
            self._templates[size] = make_url(url).database
        name = f"copy{next(self._numbers)}"
        self._server.sql(f"CREATE DATABASE {name} TEMPLATE {self._templates[size]}")
        return self._server.url(name)


@pytest.fixture(scope="session")
def databases(postgres: PostgresServer) -> Databases:
    return Databases(postgres)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "store.db"
    open_store(f"sqlite:///{path}").dispose()
    return path


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.pg)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """A store without rows."""
    if request.param == "sqlite":
        path = shutil.copy(request.getfixturevalue("template"), tmp_path)
        engine = engine_of(f"sqlite:///{path}")
    else:
        engine = engine_of(request.getfixturevalue("databases").copy())
    yield engine
    engine.dispose()


@pytest.fixture
def partitions_of_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """So PostgreSQL, which forgets whole partitions, forgets single records."""
    monkeypatch.setattr(partitions, "PARTITION_RECORDS", 1)
