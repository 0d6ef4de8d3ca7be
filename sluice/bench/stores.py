# SPDX-License-Identifier: Apache-2.0
"""Empty stores for measurements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runtime.postgres import PostgresServer

STORES = ("sqlite", "postgresql")
LOG_ROWS = 400_000
"""Each takes 1 KB of the write-ahead log. A minute of flow records takes less than all of them."""


@contextmanager
def store_url(store: str, folder: Path) -> Iterator[str]:
    """Yield the URL of an empty store of one of STORES."""
    if store == "sqlite":
        yield f"sqlite:///{folder}/store.db"
        return
    with PostgresServer.start() as server:
        _use_log(server)
        yield server.new_database()


def _use_log(server: PostgresServer) -> None:
    """Have the server fill its write-ahead log, so that it reuses the files, as after some minutes of work.

    It fills a new file with zeros first, and commits wait for that.
    """
    server.sql(
        f"CREATE TABLE filler AS SELECT repeat(md5(i::text), 30) FROM generate_series(1, {LOG_ROWS}) i"
    )
    server.sql("DROP TABLE filler")
    server.sql("CHECKPOINT")
