# SPDX-License-Identifier: Apache-2.0
"""How many connections may be open, in all and from one address. Pure; one thread uses it.

A newcomer takes the place of the connection that has waited longest for its request. If every connection has a request,
the newcomer must come back later.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

SHARE_OF_ONE = 0.25
"""The share of all connections that one address of another machine may have."""


@dataclass(eq=False)
class Visit:
    """An open connection."""

    address: str
    """Of the caller; empty for a Unix socket."""
    turn_away: Callable[[], None]
    """Closes the connection while it waits for a request."""


class Door:
    """Counts the open connections of one kind of listener."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._most_of_one = max(1, int(most * SHARE_OF_ONE))
        self._inside: set[Visit] = set()
        self._of_address: Counter[str] = Counter()
        self._waiting: dict[Visit, None] = {}
        """Those without a request, longest first."""

    def __len__(self) -> int:
        return len(self._inside)

    def enter(self, visit: Visit) -> bool:
        """Count a new connection, which waits for its request. Returns False if there is no room for it."""
        if not self._has_room(visit.address):
            return False
        self._inside.add(visit)
        self._of_address[visit.address] += 1
        self._waiting[visit] = None
        return True

    def _has_room(self, address: str) -> bool:
        """Return whether there is room, after the longest waiting connection has made some if necessary."""
        too_many_of_one = not _is_local(address) and self._of_address[address] >= self._most_of_one
        if not too_many_of_one and len(self._inside) < self._most:
            return True
        candidates = (visit for visit in self._waiting if not too_many_of_one or visit.address == address)
        longest = next(candidates, None)
        if longest is None:
            return False
        self.leave(longest)
        longest.turn_away()
        return True

    def wait(self, visit: Visit) -> None:
        """Note that the connection has no request now."""
        if visit in self._inside:
            self._waiting[visit] = None

    def serve(self, visit: Visit) -> None:
        """Note that the connection has a request: it keeps its place until the answer."""
        self._waiting.pop(visit, None)

    def leave(self, visit: Visit) -> None:
        """Forget a connection. A second time changes nothing."""
        if visit not in self._inside:
            return
        self._inside.remove(visit)
        self._waiting.pop(visit, None)
        self._of_address[visit.address] -= 1
        if not self._of_address[visit.address]:
            del self._of_address[visit.address]


def _is_local(address: str) -> bool:
    """Whether it is a Unix socket or this machine, where a proxy or a tunnel speaks for many."""
    return not address or ipaddress.ip_address(address.partition("%")[0]).is_loopback
