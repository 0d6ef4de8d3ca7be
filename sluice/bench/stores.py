# SPDX-License-Identifier: Apache-2.0
"""Empty stores for measurements."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sluice.runtime.postgres import PostgresServer

STORES = ("sqlite", "postgresql")
LOG_SEGMENTS = 25
"""Files of 16 MB that the server's write-ahead log has before a measurement. A minute of flow records fills fewer."""


DEFAULTS: Mapping[str, str] = {}
SERVERS = {
    "defaults": DEFAULTS,
    "recommended": {
        "min_wal_size": "1GB",
        "max_wal_size": "4GB",
        "wal_buffers": "64MB",
        "checkpoint_timeout": "15min",
    },
}
"""Settings of PostgreSQL. docs/how-to/keep-a-store.md recommends the second ones."""


@contextmanager
def store_url(store: str, folder: Path, server: Mapping[str, str] = DEFAULTS) -> Iterator[str]:
    """Yield the URL of an empty store of one of STORES. `server`: the settings of PostgreSQL."""
    if store == "sqlite":
        yield f"sqlite:///{folder}/store.db"
        return
    with PostgresServer.start(settings=server) as running:
        _use_log(running)
        yield running.new_database()


def _use_log(server: PostgresServer) -> None:
    """Have the server make files of its write-ahead log, which it then reuses, as after some minutes of work.

    It fills a new file with zeros first, and commits wait for that.
    """
    server.sql(
        "SELECT pg_logical_emit_message(false, 'bench', ''), pg_switch_wal() "
        f"FROM generate_series(1, {LOG_SEGMENTS})"
    )
    server.sql("CHECKPOINT")
    os.sync()  # the new cluster was not written to the device yet
