# SPDX-License-Identifier: Apache-2.0
"""Thresholds and queue maps of a switch's ports: which are desired, and which are in force.

    desired ──begin_all / begin_differences──▶ changing ──applied──▶ in force

The desired settings may move during a change. `applied` then acknowledges the settings of the change,
and the port still counts as different. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sluice.controller.changes import Remap, remap
from sluice.controller.pipeline import PriorityTag
from sluice.policy import tags
from sluice.policy.network.graph import Port
from sluice.policy.schema.desired import Policy, QueueMap, queue_map


@dataclass(frozen=True)
class ThresholdsInForce:
    """The rules of a port implement these thresholds now."""

    port: str
    """Its id, for example "s1:2"."""
    version: int
    """Of the policy."""
    thresholds_bytes: tuple[int, ...]
    flows: int
    """Flows completed in the window that the thresholds are computed from; 0 for the policy's."""


@dataclass(frozen=True)
class _Setting:
    version: int
    thresholds_bytes: tuple[int, ...]
    queue_of: QueueMap
    flows: int = 0

    def same(self, other: _Setting) -> bool:
        """Whether version and thresholds agree: the number of flows makes no rule."""
        mine, theirs = (self.version, self.thresholds_bytes), (other.version, other.thresholds_bytes)
        return mine == theirs


class PortSettings:
    """The ports of one switch, one row each, in the order of their numbers."""

    def __init__(
        self,
        ports: Sequence[Port],
        policy: Policy,
        version: int,
        thresholds: Iterable[Sequence[int]],
        acting: frozenset[str],
        *,
        priority_tags: int = PriorityTag.PUSHED,
    ) -> None:
        """`thresholds`: the first desired ones, in bytes, one sequence for each port. `acting`: see `adopt`."""
        self._ports, self._priority_tags = ports, priority_tags
        self.adopt(policy, version, acting)
        self._desired = [self._setting(each) for each in thresholds]
        self._in_force: list[_Setting] | None = None
        self._different: set[int] = set()
        """Rows whose desired setting is not in force."""
        self._changing: dict[int, _Setting] | None = None
        """Rows of the running change; None if there is none, or if it was forgotten."""
        self._applied_version = self._changing_version = version

    def adopt(self, policy: Policy, version: int, acting: frozenset[str]) -> None:
        """Make settings for another policy from now on.

        `acting`: ids of the ports whose rules choose a queue. The other ports only count.
        """
        self._policy, self._version, self._acting = policy, version, acting
        self._maps: dict[tuple[int, ...], QueueMap] = {}

    def _setting(self, thresholds_bytes: Sequence[int], flows: int = 0) -> _Setting:
        snapped = tuple(tags.snap_to_edge(threshold) for threshold in thresholds_bytes)
        if snapped not in self._maps:
            self._maps[snapped] = queue_map(self._policy, snapped)
        return _Setting(self._version, snapped, self._maps[snapped], flows)

    # ── Wanted ──────────────────────────────────────────────────────────────────────────────────

    def want(self, row: int, thresholds_bytes: Sequence[int], flows: int = 0) -> None:
        """Set a port's desired thresholds, and the number of flows that they are computed from."""
        self._desired[row] = setting = self._setting(thresholds_bytes, flows)
        if self._in_force is None or not setting.same(self._in_force[row]):
            self._different.add(row)

    @property
    def desired_thresholds(self) -> list[tuple[int, ...]]:
        """In bytes, by row."""
        return [setting.thresholds_bytes for setting in self._desired]

    def desired_flows(self, row: int) -> int:
        """Return the number of flows that a port's desired thresholds are computed from."""
        return self._desired[row].flows

    # ── In force ────────────────────────────────────────────────────────────────────────────────

    @property
    def version(self) -> int | None:
        """The policy version that all rules implement; None if that is not known."""
        return self._applied_version if self._in_force is not None else None

    @property
    def outdated(self) -> bool:
        """Whether the settings in force are known and differ from the desired ones."""
        changed = self._applied_version != self._version or bool(self._different)
        return self._in_force is not None and changed

    def forget(self) -> None:
        """Assume nothing about what the switch holds, nor what it holds after the running change."""
        self._in_force = self._changing = None
        self._different.clear()

    # ── Changes ─────────────────────────────────────────────────────────────────────────────────

    def begin_all(self) -> dict[int, QueueMap | None]:
        """Begin a change of all ports. Returns port number → queue map; None where the policy does not act."""
        self._begin(range(len(self._desired)))
        settings = zip(self._ports, self._desired, strict=True)
        return {
            port.number: setting.queue_of if port.id in self._acting else None for port, setting in settings
        }

    def begin_differences(self) -> Remap:
        """Begin a change of the ports that differ. Returns the map rules whose queue changes."""
        assert self._in_force is not None
        rows = sorted(self._different)
        self._begin(rows)
        acting = [row for row in rows if self._ports[row].id in self._acting]
        return remap(
            [self._ports[row].number for row in acting],
            [self._in_force[row].queue_of for row in acting],
            [self._desired[row].queue_of for row in acting],
            priority_tags=self._priority_tags,
        )

    def begin_none(self) -> None:
        """Begin a change that contains no map rule."""
        self._begin(())

    def _begin(self, rows: Iterable[int]) -> None:
        self._changing = {row: self._desired[row] for row in rows}
        self._changing_version = self._version

    def applied(self) -> list[ThresholdsInForce]:
        """Put the running change in force, if it was not forgotten. Returns ports with new thresholds or version."""
        if self._changing is None:
            return []
        before = self._in_force
        in_force = list(before) if before is not None else list(self._changing.values())
        news = []
        for row, setting in self._changing.items():
            in_force[row] = setting
            if before is None or not setting.same(before[row]):
                port, thresholds = self._ports[row].id, setting.thresholds_bytes
                news.append(ThresholdsInForce(port, setting.version, thresholds, setting.flows))
            if self._desired[row].same(setting):
                self._different.discard(row)
        self._in_force, self._applied_version = in_force, self._changing_version
        return news
