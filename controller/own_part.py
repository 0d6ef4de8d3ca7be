# SPDX-License-Identifier: Apache-2.0
"""The switches that this controller leads of those that several share, and the order in which it gives one up.

    held ──leaving──▶ its session ends what it does ──▶ the last rows are written ──▶ dropped

Pure: the caller passes the time. It belongs to the application's thread (app.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sluice.controller.leadership import Share
from sluice.controller.session import Session
from sluice.policy.units import NS_PER_S

END_NS = NS_PER_S
"""How long a session may take to end its operation. Then it is dropped, and the next controller reads the rules."""
REPEAT_NS = 5 * NS_PER_S
"""Until the controller writes the last rows of a switch again, because the recorder has dropped them."""


class OwnPart:
    def __init__(self) -> None:
        self.held: dict[int, int] = {}
        """Part → generation, also of those that are leaving."""
        self._due_ns: dict[int, int] = {}
        """Part that is leaving → when it is given up."""

    def adopt(self, share: Share, sessions: Mapping[int, Session], now_ns: int) -> tuple[set[int], set[int]]:
        """Take what the store says. Returns the parts that are lost and those that are new."""
        before, self.held = self.held, {**share.held, **share.leaving}
        lost = {part for part, generation in before.items() if self.held.get(part) != generation}
        gained = {part for part, generation in self.held.items() if before.get(part) != generation}
        self._due_ns = {part: due_ns for part, due_ns in self._due_ns.items() if part in share.leaving}
        for part in share.leaving.keys() - self._due_ns.keys():
            self._due_ns[part] = now_ns
            if part in sessions:
                sessions[part].is_ending = True
                self._due_ns[part] += END_NS
        return lost, gained

    def to_drop(self, sessions: Mapping[int, Session], now_ns: int) -> Iterator[int]:
        """Yield the parts that this controller gives up now."""
        for part, due_ns in self._due_ns.items():
            session = sessions.get(part)
            if now_ns >= due_ns or (session is not None and session.is_idle):
                self._due_ns[part] = now_ns + REPEAT_NS
                yield part
