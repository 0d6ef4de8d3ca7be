# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from sqlalchemy import inspect

from store.engine import open_store
from store.schema import metadata

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
