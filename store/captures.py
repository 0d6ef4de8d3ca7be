# SPDX-License-Identifier: Apache-2.0
"""Captures of ports: rows say who asked for which packets and what became of it. They are the captures' audit log.

A file stays FILE_S and then goes; at most MOST_FILES stay. The newest MOST_ROWS rows stay.
Times with the name `…_s` are of the store's own clock (store/ages.py).
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, Select, delete, desc, insert, select, update

from sluice.policy.captures import CaptureOrder, NewCapture
from sluice.store.ages import age_s
from sluice.store.audit import Author
from sluice.store.connections import reading
from sluice.store.order import one_after_another
from sluice.store.schema import capture_files
from sluice.store.schema import captures as rows

FILE_S = 600.0
MOST_FILES = 16
MOST_ROWS = 10_000
LATE_S = 30.0
"""A capture that has not come so long after its time has failed."""
LATE = "the port agent has not delivered it in time; see the agent's log"


@dataclass(frozen=True)
class Capture:
    """One row."""

    id: str
    port: str
    agent: str
    seconds: float
    bytes: int
    by: str
    address: str
    at: float
    """Epoch seconds."""
    asked_s: float
    ended_s: float | None
    """None while it runs."""
    problem: str
    packets: int
    lost: int
    full: bool
    size: int
    """Bytes of the file."""

    def is_open(self, now_s: float) -> bool:
        """Return whether the agent may still deliver it."""
        return self.ended_s is None and now_s < self.asked_s + self.seconds + LATE_S


class CaptureBusy(Exception):
    """The agent makes one capture at a time."""

    def __init__(self, other: Capture) -> None:
        super().__init__(f"{other.agent} is capturing {other.port} for {other.by}")
        self.other = other


def ask(engine: Engine, wish: NewCapture, agent: str, author: Author) -> Capture:
    """Store that this agent must make a capture. Raises CaptureBusy."""
    now_s = age_s(engine)
    capture = Capture(
        secrets.token_hex(8), wish.port, agent, wish.seconds, wish.bytes, author.name, author.address,
        time.time(), now_s, None, "", 0, 0, False, 0,
    )  # fmt: skip
    with engine.begin() as connection:
        one_after_another(connection, rows.name)
        connection.execute(insert(rows).values(**vars(capture)))
        others = _open(connection, agent, now_s, besides=capture.id)
        if others:
            raise CaptureBusy(others[0])  # the transaction ends without the new row
        _forget(connection, rows.c.number, rows.c.number, MOST_ROWS)
    return capture


def order_for(engine: Engine, agent: str) -> CaptureOrder | None:
    """Return what a port agent must capture now."""
    now_s = age_s(engine)
    with reading(engine) as connection:
        found = _open(connection, agent, now_s)
    return CaptureOrder(found[0].id, found[0].port, found[0].seconds, found[0].bytes) if found else None


def finish(engine: Engine, capture: Capture, result: dict[str, Any], pcap: bytes) -> bool:
    """Store the end of a capture and its file. Returns False if it has ended already."""
    now_s = age_s(engine)
    with engine.begin() as connection:
        one_after_another(connection, rows.name)
        ended = update(rows).where(rows.c.id == capture.id, rows.c.ended_s.is_(None))
        if not connection.execute(ended.values(**result, size=len(pcap), ended_s=now_s)).rowcount:
            return False
        if not result["problem"]:
            connection.execute(insert(capture_files).values(id=capture.id, pcap=pcap, kept_s=now_s))
            _forget(connection, capture_files.c.id, capture_files.c.kept_s, MOST_FILES)
    return True


def find_capture(engine: Engine, capture_id: str) -> Capture | None:
    with reading(engine) as connection:
        row = connection.execute(_select().where(rows.c.id == capture_id)).first()
    return Capture(**row._mapping) if row else None


def pcap_of(engine: Engine, capture_id: str) -> bytes | None:
    """Return the file of a capture; None if it is gone, or has not come."""
    with reading(engine) as connection:
        found = connection.execute(select(capture_files.c.pcap).where(capture_files.c.id == capture_id))
        return found.scalar()


def captures(engine: Engine, limit: int = 100) -> list[Capture]:
    """Return the last captures, newest first."""
    with reading(engine) as connection:
        found = connection.execute(_select().order_by(desc(rows.c.number)).limit(limit))
        return [Capture(**row._mapping) for row in found]


def forget_files(engine: Engine, now_s: float) -> None:
    """Delete the files that are older than FILE_S. `now_s` is the reading of the store's clock."""
    old = capture_files.c.kept_s < now_s - FILE_S
    with reading(engine) as connection:
        if connection.execute(select(capture_files.c.id).where(old).limit(1)).first() is None:
            return
    with engine.begin() as connection:
        connection.execute(delete(capture_files).where(old))


def _select() -> Select[Any]:
    return select(*(column for column in rows.columns if column.name != "number"))


def _open(connection: Connection, agent: str, now_s: float, besides: str = "") -> list[Capture]:
    query = _select().where(rows.c.agent == agent, rows.c.ended_s.is_(None), rows.c.id != besides)
    found = [Capture(**row._mapping) for row in connection.execute(query.order_by(rows.c.number))]
    return [capture for capture in found if capture.is_open(now_s)]


def _forget(connection: Connection, key: Any, order: Any, most: int) -> None:
    """Delete all but the newest `most` rows."""
    staying = select(key).order_by(desc(order)).limit(most)
    connection.execute(delete(key.table).where(key.not_in(staying)))
