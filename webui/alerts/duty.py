# SPDX-License-Identifier: Apache-2.0
"""Which of the web workers watches the alerts: a lease of the store, which its holder renews.

If the holder's process has ended, another worker of the same machine takes the lease at once. Workers of other machines
take it once its row has not changed for LEASE_S by their own monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Engine

from sluice.runtime.identity import has_ended, my_identity
from sluice.store import lease
from sluice.store.lease import Lease

NAME = "alerts"
LEASE_S = 10.0
RENEW_S = 2.0


class Duty:
    """One worker's part in the lease. The caller of `step` passes the monotonic time."""

    def __init__(
        self, engine: Engine, me: str | None = None, ended: Callable[[str], bool] = has_ended
    ) -> None:
        """`ended` says whether the process of a holder has certainly ended."""
        self._engine, self._me, self._ended = engine, me or my_identity(), ended
        self._mine: Lease | None = None
        self._seen: Lease | None = None
        self._seen_at_s = 0.0
        self._renewed_at_s = 0.0
        self.engine: Engine | None = None
        """The store for writes in the name of this lease; None while another worker has it."""

    def step(self, now_s: float) -> None:
        """Renew the lease if that is due, or take it if it is free. Raises SQLAlchemyError without a store."""
        if self._mine is None:
            self._wait(now_s)
        elif now_s - self._renewed_at_s >= RENEW_S:
            self._hold(lease.renew(self._engine, self._mine), now_s)

    def _wait(self, now_s: float) -> None:
        found = lease.look(self._engine, NAME)
        if found != self._seen:
            self._seen, self._seen_at_s = found, now_s
        held = found is not None and found.holder != lease.NOBODY
        if held and now_s - self._seen_at_s < LEASE_S and not self._ended(found.holder if found else ""):
            return
        self._hold(lease.take(self._engine, NAME, self._me, found), now_s)

    def _hold(self, mine: Lease | None, now_s: float) -> None:
        if mine is None:
            self.engine = None
        elif self._mine is None:
            self.engine = lease.fenced(self._engine, NAME, mine.generation)
        self._mine, self._renewed_at_s = mine, now_s

    def lose(self) -> None:
        """Another worker has taken the lease."""
        self._mine = self.engine = None

    def release(self) -> None:
        """Give the lease back, so that another worker takes it at once."""
        if self._mine is not None:
            lease.release(self._engine, self._mine)
            self.lose()
