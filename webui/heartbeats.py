# SPDX-License-Identifier: Apache-2.0
"""Heartbeats that arrive at the same moment share one transaction, and the settings that answer them stay in memory.

One thread writes at a time. The next one then writes all that arrived in the meantime. So a thousand agents lead to
larger transactions, not to a longer queue.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Engine

from sluice.policy.schema.entries import write
from sluice.policy.wire.agents import NO_SETTINGS, AgentSettings, Heartbeat
from sluice.store.desired import policy_in_force
from sluice.store.heartbeats import MOST_AGENTS, put_heartbeats

MOST_TOGETHER = 64
"""The most heartbeats in one transaction."""
REMEMBERED_BYTES = 4096
"""The longest body that is remembered."""


class Outcome(NamedTuple):
    """What became of a heartbeat."""

    is_kept: bool
    """False if there is no room for one more agent."""
    policy_version: int
    """Version of the newest policy; 0 before the first."""


@dataclass
class _Waiting:
    """A heartbeat until it is written."""

    name: str
    beat: Heartbeat
    outcome: Outcome | None = None
    error: Exception | None = None


class Heartbeats:
    """Writes heartbeats into the store, one transaction at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._writing = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        """Every thread appends to it; the thread that writes takes from it."""
        self._last: dict[str, tuple[bytes, Heartbeat]] = {}
        """The body and the heartbeat that came last from an agent. An idle one sends the same again."""
        self._settings: tuple[int, dict[str, Any]] = (0, write(NO_SETTINGS))
        """The newest policy's version, and the document of the settings that were in force then."""

    def read(self, name: str, body: bytes, parsed: Callable[[str, bytes], Heartbeat]) -> Heartbeat:
        """Return an agent's heartbeat from its body. `parsed` checks a body that is not the agent's last one."""
        last = self._last.get(name)
        if last is not None and last[0] == body:
            return last[1]
        beat = parsed(name, body)
        if len(body) <= REMEMBERED_BYTES:
            if len(self._last) >= MOST_AGENTS and last is None:
                self._last.clear()  # some of them may be gone
            self._last[name] = body, beat
        return beat

    def add(self, name: str, beat: Heartbeat) -> Outcome:
        """Store an agent's heartbeat. Raises the store's error, which holds for all that were written together."""
        mine = _Waiting(name, beat)
        self._waiting.append(mine)
        with self._writing:
            while mine.outcome is None and mine.error is None:
                self._write([self._waiting.popleft() for _ in range(min(MOST_TOGETHER, len(self._waiting)))])
        if mine.outcome is None:
            assert mine.error is not None
            raise mine.error
        return mine.outcome

    def settings(self, policy_version: int) -> dict[str, Any]:
        """Return the document of the settings in force. It reads the store if this version is not the last one's."""
        version, document = self._settings
        if version != policy_version:
            current = policy_in_force(self._engine)
            document = write(AgentSettings.of(current.version, current.policy) if current else NO_SETTINGS)
            self._settings = policy_version, document
        return document

    def _write(self, taken: Sequence[_Waiting]) -> None:
        try:
            kept = put_heartbeats(self._engine, {each.name: each.beat for each in taken})
        except Exception as error:
            for each in taken:
                each.error = error
            return
        for each in taken:
            each.outcome = Outcome(each.name in kept.names, kept.policy_version)
