# SPDX-License-Identifier: Apache-2.0
"""Delivers the spool's records to the web process, in batches and at least once.

A record that the web process refuses does not hold up the others.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from sluice.hostagent.cursor import Position
from sluice.hostagent.receipts import Receipt, receipt_of
from sluice.hostagent.records import body_of
from sluice.hostagent.spool import Batch, Spool
from sluice.runtime.agent_identity import code_of, problem_of
from sluice.runtime.http_client import Answer, ServerAway

log = logging.getLogger(__name__)

PATH = "/api/v1/flows"
EARLY = f"{PATH}?answer=visible"
MOST_WAITING = 20
"""Batches that may wait for the device. With more, the courier asks, and delivers none until some are settled."""
_REFUSED = (400, 409, 413, 422)
"""A record is wrong. Other refusals (404, 429 …) concern the service and may end, so the courier tries again."""
_NOT_OURS = "other-agent"
"""Code of the 403 for a flow that has no end at this host. Any other 403 concerns the agent's certificate."""

Post = Callable[[str, bytes], Answer]


class Delivery(Protocol):
    """The interface that the reporter calls."""

    def deliver(self) -> bool:
        """Deliver one batch. Returns False if nothing waits. Raises ServerAway."""
        ...


class Couriers:
    """Several couriers that deliver in turn, a batch each."""

    def __init__(self, *couriers: Delivery) -> None:
        self._couriers = couriers

    def deliver(self) -> bool:
        """Deliver one batch of each courier. Returns False if nothing waits. Raises ServerAway."""
        delivered = [courier.deliver() for courier in self._couriers]
        return any(delivered)


class Courier:
    """Delivers one spool. `post` sends a request, as HttpClient.post does.

    The web process may answer before its database's device has the records. Then the answer has a receipt, and the
    spool keeps the records until a later answer says that the device has them. If it says that it no longer knows, they
    are delivered again.
    """

    def __init__(self, spool: Spool, post: Post, *, early: bool = False) -> None:
        """`early`: the web process may answer early, because the spool is on a device itself."""
        self._spool = spool
        self._post = post
        self._early = early
        self._waiting: deque[tuple[Batch, Receipt]] = deque()
        """Batches that the device may not have yet, the oldest first. All receipts have one epoch."""
        self._for_good = 0
        """So many of the next batches ask for an answer that comes when the device has them."""
        self.refused = 0
        """Number of records in quarantine because the web process refused them."""

    def deliver(self) -> bool:
        """Deliver one batch. Returns False if nothing waits for its delivery. Raises ServerAway."""
        batch = self._spool.next_batch() if len(self._waiting) < MOST_WAITING else None
        if batch is None:
            return bool(self._waiting) and self._asked()
        if not self._early or self._for_good or batch.end is None:
            self._for_good = max(0, self._for_good - 1)
            self._deliver(batch.lines)
            self._spool.acknowledge(batch)
            return True
        answer = self._post(EARLY, body_of(batch.lines))
        if not answer.ok:
            self._check(answer)
            self._repeat(for_good=True)
        else:
            self._note(batch, batch.end, answer)
        return True

    def _asked(self) -> bool:
        """Ask whether the device has what waits. Returns whether records must be delivered again."""
        answer = self._post(EARLY, b"[]")
        self._check(answer)
        before = receipt_of(answer, "receipt")
        if before is None or before.epoch != self._waiting[0][1].epoch:
            self._repeat()
            return True
        self._settle(answer)
        return False

    def _note(self, batch: Batch, end: Position, answer: Answer) -> None:
        """Note that a batch was accepted, and what the device has by now."""
        mine = receipt_of(answer, "receipt")
        if self._waiting and (mine is None or mine.epoch != self._waiting[0][1].epoch):
            self._repeat()  # this batch, too, because the spool knows only how far all is delivered
        elif mine is None:
            self._spool.acknowledge(batch)
        else:
            self._spool.pass_over(end)
            self._waiting.append((batch, mine))
            self._settle(answer)

    def _settle(self, answer: Answer) -> None:
        """Forget the records that the device has."""
        reached = receipt_of(answer, "durable_to")
        if reached is None or reached.epoch != self._waiting[0][1].epoch:
            self._repeat()
            return
        while self._waiting and self._waiting[0][1].number <= reached.number:
            self._spool.acknowledge(self._waiting.popleft()[0])

    def _repeat(self, *, for_good: bool = False) -> None:
        """Begin again with the first record that the device may not have."""
        if for_good:
            self._for_good = len(self._waiting) + 1
        self._waiting.clear()
        self._spool.rewind()

    def _check(self, answer: Answer) -> None:
        if not answer.ok and not _is_wrong_record(answer):
            raise ServerAway(f"it answers {answer.status} to {PATH}: {problem_of(answer)}")

    def _deliver(self, lines: Sequence[bytes]) -> None:
        """Send the records. Halve a refused batch until the wrong record is alone, then put that one in quarantine."""
        answer = self._post(PATH, body_of(lines))
        if answer.ok:
            return
        self._check(answer)
        if len(lines) == 1:
            self._spool.quarantine(lines[0], f"{answer.status} {answer.body[:500].decode(errors='replace')}")
            self.refused += 1
            return
        middle = len(lines) // 2
        self._deliver(lines[:middle])
        self._deliver(lines[middle:])


def _is_wrong_record(answer: Answer) -> bool:
    return answer.status in _REFUSED or (answer.status == 403 and code_of(answer) == _NOT_OURS)
