# SPDX-License-Identifier: Apache-2.0
"""The file of an SQLite store: it must stay the same file, and a damaged one is kept aside.

SQLite goes on writing into a deleted file, and makes an empty one in its place at the next connection. Neither is an
error for it. So the engine compares device and inode of the file before each use of a connection.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.engine import ExceptionContext

log = logging.getLogger(__name__)

Identity = tuple[int, int]

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PRIMARY = 0xFF
"""SQLite's primary result code is the lowest byte of the extended one."""


class FileGone(sqlite3.OperationalError):
    """The store's file was deleted, moved or replaced."""


def is_damage(error: BaseException | None) -> bool:
    """Return whether SQLite has found that the file is no store or is damaged."""
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & _PRIMARY in _DAMAGE


def copy_of(path: Path) -> Path:
    """Return where the copy of a damaged store is kept."""
    return path.with_name(f"{path.name}.damaged")


def watch(engine: Engine, path: Path, *, create: bool) -> None:
    """Refuse connections to another file than the first one. Without `create`, the file must exist.

    Keep a copy of the file aside when SQLite finds it damaged.
    """
    first: Identity | None = None

    def check() -> None:
        now = _identity(path)
        if now is None and not (create and first is None):
            raise FileGone(f"there is no file {path}")
        if first is not None and now != first:
            raise FileGone(f"{path} is another file than before")

    @event.listens_for(engine, "do_connect")
    def before_connecting(*_: Any) -> None:
        check()

    @event.listens_for(engine, "checkout")
    def before_use(*_: Any) -> None:
        nonlocal first
        check()
        first = first or _identity(path)

    @event.listens_for(engine, "handle_error")
    def on_error(context: ExceptionContext) -> None:
        if is_damage(context.original_exception):
            keep_aside(path)


def keep_aside(path: Path) -> None:
    """Copy a damaged store, with what belongs to it, unless there is a copy or no room for one."""
    copy = copy_of(path)
    try:
        if copy.exists() or shutil.disk_usage(path.parent).free < 2 * path.stat().st_size:
            return
        shutil.copy2(path, copy)
        write_ahead = path.with_name(f"{path.name}-wal")
        if write_ahead.exists():
            shutil.copy2(write_ahead, copy.with_name(f"{copy.name}-wal"))
    except OSError as error:
        log.error("cannot keep a copy of the damaged store %s: %s", path, error)
        return
    log.error("the store %s is damaged; a copy is in %s", path, copy)


def _identity(path: Path) -> Identity | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
