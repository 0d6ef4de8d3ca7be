# SPDX-License-Identifier: Apache-2.0
"""The store's own clock. Retention and liveness go by it, because the wall clock may step.

The clock counts seconds since the store was made, without those in which no machine had it open. It never goes back.
One row holds its last reading, with the boot and CLOCK_BOOTTIME of the machine that wrote it:

    same boot       reading + time since it by CLOCK_BOOTTIME, which counts a suspended machine, too
    other boot      the reading: how long the machine was off, only the wall clock knows, and that may be wrong

So all processes of one machine read the same without writing. `advance` keeps the row up to date, in each web worker
once a second. Several machines agree within about that second.

Marks say which rows the store had at a reading, by their numbers. So the age of a row needs no time in the row.
"""

import threading
import time
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, Row, delete, func, select, update

from sluice.runtime.identity import boot
from sluice.store.connections import first, insert_for, one_after_another, put_row, reading
from sluice.store.schema import AGED, marks, store_clock

_READ_AGAIN_S = 10.0
STEP_S = 60.0
"""A wall clock that departs this much from the store's clock between two readings has stepped."""


class Step(NamedTuple):
    """The last step of the wall clock that the store has seen."""

    by_s: float
    """Positive if the wall clock went forward."""
    ago_s: float


@dataclass
class _Reading:
    """What one process knows of a store's clock."""

    age_s: float
    at_s: float
    """CLOCK_BOOTTIME at which the clock had this age."""

    def now(self, boottime_s: float) -> float:
        return self.age_s + boottime_s - self.at_s


_readings: WeakKeyDictionary[Engine, _Reading] = WeakKeyDictionary()
_lock = threading.Lock()


def boottime_s() -> float:
    """Return CLOCK_BOOTTIME in seconds: monotonic, and it counts a suspended machine."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def start(connection: Connection) -> None:
    """Give a new store its clock."""
    row = {"id": 1, "age_s": 0.0, "boot_id": boot(), "boottime_s": boottime_s(), "wall_s": time.time()}
    connection.execute(insert_for(connection, store_clock).values(row).on_conflict_do_nothing())


def age_s(engine: Engine) -> float:
    """Return the reading of the store's clock in seconds. It reads the store at most every 10 s."""
    now_s = boottime_s()
    with _lock:
        latest = _readings.get(engine)
    if latest is None or now_s - latest.at_s > _READ_AGAIN_S:
        with reading(engine) as connection:
            row = connection.execute(select(store_clock)).one()
        latest = _noted(engine, _Reading(_age_by(row, now_s), now_s))
    return latest.now(now_s)


def advance(engine: Engine) -> float:
    """Write the clock's reading and return it. It notes a step of the wall clock."""
    now_s, wall_s = boottime_s(), time.time()
    with engine.begin() as connection:
        one_after_another(connection, store_clock.name)
        connection.execute(update(store_clock).values(id=1))  # SQLite: take the write lock before reading
        row = connection.execute(select(store_clock)).one()
        latest = _noted(engine, _Reading(_age_by(row, now_s), now_s))
        values = {"age_s": latest.age_s, "boot_id": boot(), "boottime_s": now_s, "wall_s": wall_s}
        step_s = wall_s - row.wall_s - (now_s - row.boottime_s)
        if row.boot_id == boot() and abs(step_s) > STEP_S:
            values |= {"step_s": step_s, "step_age_s": latest.age_s}
        connection.execute(update(store_clock).values(values))
    return latest.age_s


def last_step(engine: Engine) -> Step | None:
    """Return the last step of the wall clock; None if the store has seen none."""
    row = first(engine, select(store_clock.c.step_s, store_clock.c.step_age_s))
    return None if row is None or row.step_s is None else Step(row.step_s, age_s(engine) - row.step_age_s)


def mark(engine: Engine, age_s: float, every_s: float) -> None:
    """Note which rows the store has at this age, unless there is a mark of the last `every_s` seconds."""
    with engine.begin() as connection:
        one_after_another(connection, marks.name)
        last = connection.execute(select(func.max(marks.c.age_s))).scalar()
        if last is not None and age_s - last < every_s:
            return
        newest: dict[str, int] = {}
        for table in AGED:
            number = select(func.max(table.primary_key.columns[0]))
            newest[table.name] = connection.execute(number).scalar() or 0
        put_row(connection, marks, {"age_s": age_s, **newest})


def older_than(connection: Connection, table: str, age_s: float) -> int:
    """Return the number of the table's newest row that was there at this age; 0 if no row is known to be so old."""
    newest = select(func.max(marks.c[table])).where(marks.c.age_s <= age_s)
    return connection.execute(newest).scalar() or 0


def forget_marks(engine: Engine, age_s: float) -> None:
    """Delete the marks before this age, except the last of them."""
    with engine.begin() as connection:
        last = connection.execute(select(func.max(marks.c.age_s)).where(marks.c.age_s <= age_s)).scalar()
        if last is not None:
            connection.execute(delete(marks).where(marks.c.age_s < last))


def _age_by(row: Row[tuple[object, ...]], now_s: float) -> float:
    passed_s = now_s - row.boottime_s if row.boot_id == boot() else 0.0
    return float(row.age_s) + max(0.0, passed_s)


def _noted(engine: Engine, latest: _Reading) -> _Reading:
    """Keep the later of this reading and the one before it: the clock does not go back."""
    with _lock:
        before = _readings.get(engine)
        if before is not None:
            latest = _Reading(max(latest.age_s, before.now(latest.at_s)), latest.at_s)
        _readings[engine] = latest
        return latest
