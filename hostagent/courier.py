# SPDX-License-Identifier: Apache-2.0
"""Delivers the spool's records to the web process, in batches and at least once.

A record that the web process refuses does not hold up the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from hostagent.spool import Spool, body_of
from runtime.agent_identity import code_of, problem_of
from runtime.http_client import Answer, ServerAway

log = logging.getLogger(__name__)

PATH = "/api/v1/flows"
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
    """Delivers one spool. `post` sends a request, as HttpClient.post does."""

    def __init__(self, spool: Spool, post: Post) -> None:
        self._spool = spool
        self._post = post
        self.refused = 0
        """Number of records in quarantine because the web process refused them."""

    def deliver(self) -> bool:
        """Deliver one batch. Returns False if nothing waits. Raises ServerAway."""
        batch = self._spool.next_batch()
        if batch is None:
            return False
        self._deliver(batch.lines)
        self._spool.acknowledge(batch)
        return True

    def _deliver(self, lines: Sequence[bytes]) -> None:
        """Send the records. Halve a refused batch until the wrong record is alone, then put that one in quarantine."""
        answer = self._post(PATH, body_of(lines))
        if answer.ok:
            return
        if not _is_wrong_record(answer):
            raise ServerAway(f"it answers {answer.status} to {PATH}: {problem_of(answer)}")
        if len(lines) == 1:
            self._spool.quarantine(lines[0], f"{answer.status} {answer.body[:500].decode(errors='replace')}")
            self.refused += 1
            return
        middle = len(lines) // 2
        self._deliver(lines[:middle])
        self._deliver(lines[middle:])


def _is_wrong_record(answer: Answer) -> bool:
    return answer.status in _REFUSED or (answer.status == 403 and code_of(answer) == _NOT_OURS)
