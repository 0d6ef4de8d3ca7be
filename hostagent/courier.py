# SPDX-License-Identifier: Apache-2.0
"""Delivers the spool to the web process: at least once, in batches, and past a record that it refuses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from hostagent.spool import Spool, body_of
from runtime.http_client import Answer, ServerAway

log = logging.getLogger(__name__)

PATH = "/api/v1/flows"
_REFUSED = (400, 413, 422)
"""The records are at fault. Any other refusal (404, 429 …) is about the service and may pass: try again."""

Post = Callable[[str, bytes], Answer]


class Delivery(Protocol):
    """What the reporter asks to deliver something."""

    def deliver(self) -> bool:
        """Deliver one batch; False when there is none. Raises ServerAway."""
        ...


class Couriers:
    """Several as one, a batch of each in turn."""

    def __init__(self, *couriers: Delivery) -> None:
        self._couriers = couriers

    def deliver(self) -> bool:
        """One batch of each; False when nobody had one. Raises ServerAway."""
        delivered = [courier.deliver() for courier in self._couriers]
        return any(delivered)


class Courier:
    """`post` is Web.post."""

    def __init__(self, spool: Spool, post: Post) -> None:
        self._spool = spool
        self._post = post
        self.refused = 0
        """Records put aside because the web process refused them."""

    def deliver(self) -> bool:
        """Deliver one batch; False when there is none. Raises ServerAway."""
        batch = self._spool.next_batch()
        if batch is None:
            return False
        self._deliver(batch.lines)
        self._spool.acknowledge(batch)
        return True

    def _deliver(self, lines: Sequence[bytes]) -> None:
        """Halve a refused batch until the bad record is alone."""
        answer = self._post(PATH, body_of(lines))
        if answer.ok:
            return
        if answer.status not in _REFUSED:
            raise ServerAway(f"it answers {answer.status} to flow records")
        if len(lines) == 1:
            self._spool.quarantine(lines[0], f"{answer.status} {answer.body[:500].decode(errors='replace')}")
            self.refused += 1
            return
        middle = len(lines) // 2
        self._deliver(lines[:middle])
        self._deliver(lines[middle:])
