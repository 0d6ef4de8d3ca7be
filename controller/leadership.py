# SPDX-License-Identifier: Apache-2.0
"""Which of several controllers on one store leads: a lease, and the thread that renews it.

    follows ──the holder's row is unchanged for LEASE_S, or its process has ended──▶ leads
    leads ──another controller has taken the row──▶ follows

A leader that cannot reach the store continues. If the store is away for all controllers, no other
one can take the lease. If it is away for this one alone, the new holder becomes master at the
switches with a greater generation, and they refuse this one. A leader that has not looked at the
row for FRESH_NS (for example because it was stopped) does nothing until it has looked.

Only the monotonic clock counts, so a step of the wall clock has no effect.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from sluice.runtime.identity import has_ended, my_identity
from sluice.store import lease
from sluice.store.failures import is_delay
from sluice.store.lease import Lease

log = logging.getLogger(__name__)

NAME = "controller"
LEASE_S = 1.8
LOOK_S = 0.2
"""Between two looks of a follower at the row. The holder renews it half as often."""
FRESH_NS = 1_500_000_000
"""Less than LEASE_S: a leader that has not looked for longer must assume that another one leads.
"""
RETAKE_S = 5.0
RECONNECT_S = 2.0
"""After an outage of at least OUTAGE_S, all controllers reach the store again within this time: it is the shortest
timeout of libpq for a connection."""
OUTAGE_S = 1.0


@dataclass(frozen=True)
class LeaseStatus:
    """Whether this controller leads, at a moment of the monotonic clock."""

    leads: bool
    generation: int
    at_ns: int

    def is_fresh(self, now_ns: int) -> bool:
        return now_ns - self.at_ns < FRESH_NS


class Candidacy:
    """One controller's part in the lease.

    Without a thread: the caller of `step` passes the time.
    """

    def __init__(self, me: str, ended: Callable[[str], bool] = has_ended) -> None:
        """`ended` says whether the process of a holder has certainly ended."""
        self._me, self._ended = me, ended
        self._mine: Lease | None = None
        self._seen: Lease | None = None
        self._seen_at_s = 0.0
        self._trying_since_s: float | None = None
        """When the first attempt to read the lease began since the last look."""
        self._retaken_at_s = float("-inf")
        self.is_disputed = False
        """A switch has reported another master."""

    @property
    def leads(self) -> bool:
        return self._mine is not None

    @property
    def generation(self) -> int:
        """The newest known generation; 0 before the first."""
        newest = self._mine or self._seen
        return newest.generation if newest else 0

    def step(self, engine: Engine, now_s: float) -> None:
        """Renew the lease, or take it if it is free. Raises SQLAlchemyError without a store."""
        if self._trying_since_s is None:
            self._trying_since_s = now_s
        if self._mine is not None:
            self._renew(engine, self._mine, now_s)
        else:
            self._wait(engine, now_s)
        self._trying_since_s = None

    def _renew(self, engine: Engine, mine: Lease, now_s: float) -> None:
        if self.is_disputed and now_s - self._retaken_at_s >= RETAKE_S:
            # If the row still holds this controller, the switch has seen a greater generation of another store.
            # Taking the lease again gives a greater one.
            self._retaken_at_s, self.is_disputed = now_s, False
            self._mine = lease.take(engine, NAME, self._me, mine)
        else:
            self._mine = lease.renew(engine, mine)
        if self._mine is None:
            self.is_disputed = False
            self._see(lease.look(engine, NAME), now_s)

    def _wait(self, engine: Engine, now_s: float) -> None:
        stored = lease.look(engine, NAME)
        if stored != self._seen:
            self._see(stored, now_s)
        if self._trying_since_s is not None and now_s - self._trying_since_s >= OUTAGE_S:
            # In an outage of the store, no one gives a sign. Otherwise, whoever reaches the store first after an outage
            # would take what the others lead.
            self._seen_at_s = max(self._seen_at_s, now_s + RECONNECT_S)
        self._trying_since_s = None
        seen = self._seen
        if (
            seen is None
            or seen.holder == lease.NOBODY
            or now_s - self._seen_at_s >= LEASE_S
            or self._ended(seen.holder)
        ):
            self._mine = lease.take(engine, NAME, self._me, seen)

    def _see(self, stored: Lease | None, now_s: float) -> None:
        self._seen, self._seen_at_s = stored, now_s

    def release(self, engine: Engine) -> None:
        """Give the lease back, if this controller holds it."""
        if self._mine is not None:
            lease.release(engine, self._mine)
            self._mine = None


class Leadership:
    """The thread that takes part in the lease and reports its status after every look."""

    def __init__(self, store_url: str, report: Callable[[LeaseStatus], None]) -> None:
        self._url, self._report = store_url, report
        self._candidacy = Candidacy(my_identity())
        self._engine: Engine | None = None
        self._has_opened = False
        self._outage = ""
        """Why the store could not be reached at the last look; empty if it could."""
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="lease", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def dispute(self) -> None:
        """A switch has reported another master: look at the row at once."""
        self._candidacy.is_disputed = True
        self._wake.set()

    def stop(self, timeout_s: float) -> None:
        """Give the lease back, if the store permits it within the time."""
        self._stopping.set()
        self._wake.set()
        self._thread.join(timeout_s)

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self._look()
            self._wake.wait(2 * LOOK_S if self._candidacy.leads else LOOK_S)
            self._wake.clear()
        self._give_back()

    def _look(self) -> None:
        at_ns = time.monotonic_ns()
        try:
            if self._engine is None:
                self._engine = lease.open_for_leases(self._url, create=not self._has_opened)
                self._has_opened = True
            self._candidacy.step(self._engine, at_ns / 1e9)
            self._outage = ""
        except SQLAlchemyError as error:
            # The status stays as it is: see the top of this file.
            text = str(getattr(error, "orig", None) or error)
            if text != self._outage:
                log.warning("cannot read the lease in the store, trying again: %s", text)
            self._outage = text
            # A busy server would be busier with new connections.
            if self._engine is not None and not is_delay(error):
                self._engine.dispose()
                self._engine = None
            at_ns = time.monotonic_ns()
        self._report(LeaseStatus(self._candidacy.leads, self._candidacy.generation, at_ns))

    def _give_back(self) -> None:
        if self._engine is None:
            return
        try:
            self._candidacy.release(self._engine)
        except SQLAlchemyError as error:
            log.info("cannot give the lease back: %s", error)
        self._engine.dispose()
