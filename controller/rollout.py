# SPDX-License-Identifier: Apache-2.0
"""Whether all switches of several controllers implement the newest policy: their rows in the store say so.

Each controller writes the rows of its own switches. The coordinator reads them all, in the recorder's thread.
"""

from __future__ import annotations

import logging

from sqlalchemy import Engine

from sluice.policy.network.graph import Topology
from sluice.store import desired
from sluice.store.observed import add_event, all_switches

log = logging.getLogger(__name__)

LATE_S = 5.0
"""From a new policy until the coordinator reports the switches that do not implement it yet."""


class Rollout:
    """The way of the newest policy to the switches."""

    def __init__(self) -> None:
        self._version, self._since_s = 0, 0.0
        self._is_applied = self._is_reported = False

    def look(self, engine: Engine, fenced: Engine, topology: Topology, version: int, now_s: float) -> None:
        """Report, once for each version, that all switches implement it, and before that which ones are late.

        `fenced`: the same store, for the coordinator's writes. A read must not take the lock of SQLite's one writer.
        """
        if version != self._version:
            self._version, self._since_s = version, now_s
            self._is_applied = self._is_reported = False
        if self._is_applied or version == 0:
            return
        missing = self._missing(engine, topology)
        if not missing:
            self._applied(engine, fenced, len(topology.switches))
        elif now_s - self._since_s >= LATE_S and not self._is_reported:
            self._is_reported = True
            log.warning("policy version %d is not applied by %s", version, ", ".join(missing))
            add_event(fenced, "policy-late", version=version, switches=missing)

    def _missing(self, engine: Engine, topology: Topology) -> list[str]:
        right = {
            row["dpid"]
            for row in all_switches(engine)
            if row["connected"] and row["policy_version"] == self._version
        }
        return [switch.name for switch in topology.switches if switch.dpid not in right]

    def _applied(self, engine: Engine, fenced: Engine, switches: int) -> None:
        log.info("policy version %d is applied by %d switches", self._version, switches)
        newest = desired.policy_in_force(
            engine
        )  # a later version of Sluice may have written the one that is applied
        scheme = newest.policy.scheme if newest is not None and newest.version == self._version else ""
        desired.mark_applied(fenced, self._version)
        add_event(fenced, "policy-applied", version=self._version, scheme=scheme)
        self._is_applied = True
