# SPDX-License-Identifier: Apache-2.0
"""Changes of the policy by REST at random moments."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sluice.runs.stack import Stack
from sluice.runtime.http_client import ServerAway
from sluice.store import desired

MEAN_S = 12.0
AGAIN_S = 1.0
"""Until the next attempt, if the web process is away."""
BUFFER = {"buffer": "200KB"}
MARKING = {"mark_at": "20pkt", "queues": 4}
ADAPTIVE = {"scheme": "mlfq-adaptive", **MARKING, **BUFFER}
FIXED = (
    {"scheme": "pias", "thresholds": ["20KB", "100KB", "300KB"], **MARKING, **BUFFER},
    {"scheme": "pias", "thresholds": ["10KB", "50KB", "200KB"], **MARKING, **BUFFER},
    {"scheme": "tcp", **BUFFER},
)
"""With these, a controller writes rules only if the policy changes or a switch has lost its rules."""
ADAPTIVE_SHARE = 0.25


@dataclass(frozen=True)
class Change:
    """A policy that was accepted. Times are epoch seconds."""

    version: int
    at: float
    adapts: bool


class Policies:
    """Draws and makes the changes. Call `tick` often."""

    def __init__(self, stack: Stack, rng: np.random.Generator, mean_s: float = MEAN_S) -> None:
        self._stack, self._rng, self._mean_s = stack, rng, mean_s
        first = desired.current_policy(stack.engine)
        assert first is not None
        self.changes = [
            Change(first.version, first.created_at, first.policy.definition.threshold_rule.adapts)
        ]
        self._last: Mapping[str, Any] = {}
        self._due = self._next()

    def _next(self) -> float:
        return time.time() + float(self._rng.exponential(self._mean_s))

    def _draw(self) -> Mapping[str, Any]:
        """Return another policy than the last one."""
        if self._rng.random() < ADAPTIVE_SHARE and self._last is not ADAPTIVE:
            return ADAPTIVE
        others = [document for document in FIXED if document is not self._last]
        return others[int(self._rng.integers(len(others)))]

    def tick(self) -> None:
        if time.time() >= self._due:
            self._due = self._next() if self.change(self._draw()) else time.time() + AGAIN_S

    def change(self, document: Mapping[str, Any]) -> bool:
        """Return whether the web process has accepted a policy."""
        try:
            answer = self._stack.put_policy(document)
        except ServerAway:
            return False
        if not answer.ok:
            return False
        newest = desired.current_policy(self._stack.engine)
        assert newest is not None
        self._last = document
        self.changes.append(
            Change(newest.version, newest.created_at, newest.policy.definition.threshold_rule.adapts)
        )
        return True
