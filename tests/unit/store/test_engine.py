# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import inspect

from sluice.policy.errors import EnvironmentLacking
from sluice.policy.version import VERSION
from sluice.store.engine import open_store
from sluice.store.schema import SCHEMA_VERSION, metadata, schema_versions

OPENERS = 6


def test_open_store__of_many_that_open_a_new_file_at_once_none_is_refused(tmp_path: Path) -> None:
    for number in range(10):
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


def test_open_store__notes_its_version_once(tmp_path: Path) -> None:
    for _ in range(2):
        engine = open_store(f"sqlite:///{tmp_path}/store.db")
        with engine.connect() as connection:
            assert [tuple(row) for row in connection.execute(schema_versions.select())] == [
                (SCHEMA_VERSION, VERSION)
            ]
        engine.dispose()
