# SPDX-License-Identifier: Apache-2.0
"""Which of several controllers on one store is the one that leads: a lease, and a thread that looks after it.

    follows ──the holder's row stands still for LEASE_S, or its process has ended──▶ leads ──row changed──▶ follows

A leader that cannot reach the store goes on: nobody can take the lease while it is away for all, and if it is away for
this one alone, whoever takes it becomes master at the switches with a greater generation, and they refuse the former
one. A leader that has not looked for FRESH_NS (it was stopped, say) does nothing until it has.

Only the monotonic clock counts, so that a step of the wall clock moves nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from runtime.identity import has_ended, my_identity
from store import lease
from store.lease import Lease

log = logging.getLogger(__name__)

NAME = "controller"
LEASE_S = 1.8
LOOK_S = 0.2
"""Between two looks at the row of somebody else; its holder renews it half as often."""
FRESH_NS = 1_500_000_000
"""Less than LEASE_S: who has not looked for this long must not act, since another may have begun to."""
RETAKE_S = 5.0


@dataclass(frozen=True)
class Standing:
    """Whether this controller leads, as of a moment of the monotonic clock."""

    leads: bool
    generation: int
    at_ns: int

    def is_fresh(self, now_ns: int) -> bool:
        return now_ns - self.at_ns < FRESH_NS


class Candidacy:
    """One controller's part in the lease: `step` looks at the store and does what is due. Told the time; no thread."""

    def __init__(self, me: str, ended: Callable[[str], bool] = has_ended) -> None:
        self._me, self._ended = me, ended
        self._mine: Lease | None = None
        self._seen: Lease | None = None
        self._seen_at = 0.0
        self._retaken_at = float("-inf")
        self.doubted = False
        """A switch has said that another one is its master."""

    @property
    def leads(self) -> bool:
        return self._mine is not None

    @property
    def generation(self) -> int:
        """The newest that is known; 0 before the first."""
        known = self._mine or self._seen
        return known.generation if known else 0

    def step(self, engine: Engine, now: float) -> None:
        """Renew the lease, or take it when it is free. Raises SQLAlchemyError when the store is away."""
        if self._mine is not None:
            self._renew(engine, self._mine, now)
        else:
            self._wait(engine, now)

    def _renew(self, engine: Engine, mine: Lease, now: float) -> None:
        if self.doubted and now - self._retaken_at >= RETAKE_S:
            # The row will tell. If it is ours, that switch has seen a greater generation, of another store's.
            self._retaken_at, self.doubted = now, False
            self._mine = lease.take(engine, NAME, self._me, mine)
        else:
            self._mine = lease.renew(engine, mine)
        if self._mine is None:
            self.doubted = False
            self._see(lease.look(engine, NAME), now)

    def _wait(self, engine: Engine, now: float) -> None:
        found = lease.look(engine, NAME)
        if found != self._seen:
            self._see(found, now)
        if self._is_free(now):
            self._mine = lease.take(engine, NAME, self._me, self._seen)

    def _see(self, found: Lease | None, now: float) -> None:
        self._seen, self._seen_at = found, now

    def _is_free(self, now: float) -> bool:
        seen = self._seen
        if seen is None or seen.holder == lease.NOBODY:
            return True
        return now - self._seen_at >= LEASE_S or self._ended(seen.holder)

    def release(self, engine: Engine) -> None:
        """Give the lease back, if it is ours."""
        if self._mine is not None:
            lease.release(engine, self._mine)
            self._mine = None


class Leadership:
    """The thread that stands as a candidate, and says how it stands at every look."""

    def __init__(self, store_url: str, tell: Callable[[Standing], None]) -> None:
        self._url, self._tell = store_url, tell
        self._candidacy = Candidacy(my_identity())
        self._engine: Engine | None = None
        self._away = ""
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="lease", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def doubt(self) -> None:
        """A switch has said that another controller is its master: look at once."""
        self._candidacy.doubted = True
        self._wake.set()

    def stop(self, timeout_s: float) -> None:
        """Give the lease back, if the store lets us within the time."""
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
                self._engine = lease.open_for_leases(self._url)
            self._candidacy.step(self._engine, at_ns / 1e9)
            self._away = ""
        except SQLAlchemyError as error:
            self._lost(error)
            at_ns = time.monotonic_ns()
        self._tell(Standing(self._candidacy.leads, self._candidacy.generation, at_ns))

    def _lost(self, error: SQLAlchemyError) -> None:
        """Go on as before: see the top of this file."""
        text = str(getattr(error, "orig", None) or error)
        if text != self._away:
            log.warning("the lease cannot be looked at, trying again: %s", text)
        self._away = text
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def _give_back(self) -> None:
        if self._engine is None:
            return
        try:
            self._candidacy.release(self._engine)
        except SQLAlchemyError as error:
            log.info("the lease could not be given back: %s", error)
        self._engine.dispose()
