# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from sluice.store import partitions
from sluice.store.engine import open_store


@pytest.fixture
def engine(store_url: str) -> Iterator[Engine]:
    engine = open_store(store_url)
    yield engine
    engine.dispose()


@pytest.fixture
def partitions_of_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """So PostgreSQL, which forgets whole partitions, forgets single records."""
    monkeypatch.setattr(partitions, "PARTITION_RECORDS", 1)
