# SPDX-License-Identifier: Apache-2.0
"""What one switch should hold and what is to be done about it: the controller's thinking, without I/O or clock.

    unknown ──read──▶ known ──change──▶ right ──poll──▶ (thresholds move) ──change──▶ right …

The shell asks `next_operation` and says how it went (`rules_read`, `applied`, `refused`, `counted`). There is one
operation at a time for each switch, so whatever the state says of the switch stays true until the answer. Work is in
ports × tags; how many flows cross the switch makes no difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from controller.pipeline import Changes, FlowRule, SwitchRules, diff, map_rule, switch_rules
from policy import tags
from policy.adaptation import Carried, PortAdaptation, PortCounters, adapt
from policy.desired import Policy
from policy.graph import Topology
from policy.queue_map import QueueMap, changed, queue_map
from policy.schemes import ThresholdRule
from policy.thresholds import Counts

MS = 1_000_000
MIN_POLL_NS = 50 * MS
QUEUE_POLL_NS = 1_000 * MS
RETRY_NS = 1_000 * MS
"""Wait this long after a switch has refused a change before its rules are read and put right again."""


@dataclass(frozen=True)
class Desired:
    """What the store wants of the network."""

    topology: Topology
    version: int
    policy: Policy
    learned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Thresholds that ports had under this very version before the controller started, by port id."""


# ── What to do next ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ReadRules:
    """Read all rules and groups."""


@dataclass(frozen=True)
class Change:
    """Make these changes in one atomic bundle and wait for the barrier."""

    changes: Changes


@dataclass(frozen=True)
class PollCarried:
    """Read the counters of packets and bytes by port and tag, just before those of completed flows."""


@dataclass(frozen=True)
class PollCompleted:
    """Read the counters of completed flows."""


@dataclass(frozen=True)
class PollQueues:
    """Read the queue statistics."""


Operation: TypeAlias = ReadRules | Change | PollCarried | PollCompleted | PollQueues


@dataclass(frozen=True)
class ThresholdsInForce:
    """A port's rules stand at these thresholds now."""

    port: str
    version: int
    thresholds_bytes: tuple[int, ...]
    flows: int
    """Completed in the window that they were computed from; 0 for those of the policy."""


@dataclass(frozen=True)
class _Setting:
    """What a port has or should have."""

    version: int
    thresholds: tuple[int, ...]
    queue_of: QueueMap
    flows: int = 0

    def same(self, other: _Setting | None) -> bool:
        return other is not None and (self.version, self.thresholds) == (other.version, other.thresholds)


class SwitchState:
    """One switch of the topology, connected or not."""

    def __init__(self, name: str, desired: Desired) -> None:
        self.name = name
        self._topology = desired.topology
        self._ports = {port.number: port for port in desired.topology.ports_of[name]}
        self._held: SwitchRules | None = None
        self._in_force: dict[int, _Setting] | None = None
        self._changing_to: dict[int, _Setting] = {}
        self._applied_version = self._changing_to_version = desired.version
        self._not_before_ns = 0
        self._adopt(desired)
        learned = desired.learned if self._adaptive else {}
        self._wanted = {
            number: self._setting(learned.get(port.id, self._policy.thresholds))
            for number, port in self._ports.items()
        }
        self.connected(0)

    # ── What is wanted ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def version(self) -> int | None:
        """Policy version that all rules stand at; None while they do not stand at one."""
        return self._applied_version if self._in_force is not None else None

    def want(self, desired: Desired) -> None:
        """Take a new policy. Thresholds that a port has learned stay when it is asked to start where it started."""
        before = self._policy
        self._adopt(desired)
        keep = self._adaptive and (before.scheme, before.queues, before.thresholds) == (
            self._policy.scheme,
            self._policy.queues,
            self._policy.thresholds,
        )
        for number, setting in self._wanted.items():
            thresholds = setting.thresholds if keep else self._policy.thresholds
            self._wanted[number] = self._setting(thresholds, setting.flows if keep else 0)
        if not keep:
            self._forget()
        for adaptation in self._adaptations.values():
            adaptation.adopt(self._policy)

    def _adopt(self, desired: Desired) -> None:
        self._policy, self._version = desired.policy, desired.version
        rule = desired.policy.definition.threshold_rule
        self._adaptive, self._weighs = rule.adapts, rule is ThresholdRule.ONLINE
        self._carried: Mapping[int, Carried] | None = None
        window_ns = desired.policy.window_ms * MS
        self._poll_ns = max(MIN_POLL_NS, min(desired.policy.interval_ms * MS, window_ns // 4))

    def _setting(self, thresholds: tuple[int, ...], flows: int = 0) -> _Setting:
        snapped = tuple(tags.snap_to_edge(threshold) for threshold in thresholds)
        return _Setting(self._version, snapped, queue_map(self._policy, snapped), flows)

    def _forget(self) -> None:
        """Nothing has been seen yet."""
        self._carried = None
        self._adaptations = {
            number: PortAdaptation(self._policy, port.rate_bps, self._wanted[number].thresholds)
            for number, port in self._ports.items()
        }

    # ── The conversation with the switch ───────────────────────────────────────────────────────────────────────────

    def connected(self, now_ns: int) -> None:
        """A new connection: nothing is known of the switch, and the counters start from a new baseline."""
        self._held = None
        self._in_force = None
        self._forget()
        self._not_before_ns = self._next_completed_ns = self._next_adjust_ns = self._next_queues_ns = now_ns

    def next_operation(self, now_ns: int) -> Operation | None:
        """The most urgent thing to do on an idle connection; None when nothing is due."""
        if now_ns < self._not_before_ns:
            return None
        if self._in_force is None:
            return ReadRules() if self._held is None else self._first_change(self._held)
        if self._applied_version != self._version or self._moved(self._in_force):
            return self._next_change(self._in_force)
        if self._adaptive and now_ns >= self._next_completed_ns:
            if self._weighs and self._carried is None:
                return PollCarried()
            self._next_completed_ns = _next_due(self._next_completed_ns, self._poll_ns, now_ns)
            return PollCompleted()
        if now_ns >= self._next_queues_ns:
            self._next_queues_ns = _next_due(self._next_queues_ns, QUEUE_POLL_NS, now_ns)
            return PollQueues()
        return None

    def _moved(self, in_force: Mapping[int, _Setting]) -> bool:
        return any(not setting.same(in_force[number]) for number, setting in self._wanted.items())

    def rules_read(self, held: SwitchRules) -> None:
        self._held = held

    def _first_change(self, held: SwitchRules) -> Change:
        """Whatever differs from what a fresh controller would install."""
        self._change_under_way()
        queue_maps = {number: setting.queue_of for number, setting in self._wanted.items()}
        return Change(diff(held, switch_rules(self._topology, self.name, queue_maps)))

    def _next_change(self, in_force: Mapping[int, _Setting]) -> Change:
        """The map rules whose queue changes, of all ports together."""
        self._change_under_way()
        rules: list[FlowRule] = []
        for number, setting in self._wanted.items():
            queues = changed(in_force[number].queue_of, setting.queue_of)
            rules += [map_rule(number, tag, queue) for tag, queue in queues.items()]
        return Change(Changes(modify=tuple(rules)))

    def _change_under_way(self) -> None:
        self._changing_to, self._changing_to_version = dict(self._wanted), self._version

    def applied(self) -> list[ThresholdsInForce]:
        """The switch has acknowledged the change; returns the ports whose thresholds or version are news."""
        news = [
            ThresholdsInForce(self._ports[number].id, setting.version, setting.thresholds, setting.flows)
            for number, setting in self._changing_to.items()
            if not setting.same(self._in_force.get(number) if self._in_force else None)
        ]
        self._in_force, self._applied_version = self._changing_to, self._changing_to_version
        self._held = None
        return news

    def refused(self, now_ns: int) -> None:
        """The switch refused the change as a whole: find out later what it holds, and try again."""
        self._held = None
        self._in_force = None
        self._not_before_ns = now_ns + RETRY_NS

    # ── Adapting ───────────────────────────────────────────────────────────────────────────────────────────────────

    def carried(self, counts: Mapping[int, Carried]) -> None:
        """Take the cumulative counters of packets and bytes by tag; those of completed flows come next."""
        self._carried = counts

    def counted(self, now_ns: int, counts: Mapping[int, Counts]) -> None:
        """Take the cumulative counters of completed flows, and move thresholds when it is time to."""
        carried, self._carried = self._carried or {}, None
        for number, adaptation in self._adaptations.items():
            if number in counts and (number in carried or not self._weighs):
                fins = PortCounters.of_completed(counts[number])
                adaptation.observe(now_ns, fins.with_carried(carried.get(number)))
        if self._adaptive and now_ns >= self._next_adjust_ns:
            self._next_adjust_ns = _next_due(self._next_adjust_ns, self._policy.interval_ms * MS, now_ns)
            self._adjust()

    def _adjust(self) -> None:
        answers = adapt(list(self._adaptations.values()))
        for (number, adaptation), thresholds in zip(self._adaptations.items(), answers, strict=True):
            if thresholds is not None:
                self._wanted[number] = self._setting(thresholds, adaptation.flows)

    def port_id(self, number: int) -> str | None:
        """Name of a port by its number; None for one that the topology does not have."""
        port = self._ports.get(number)
        return port.id if port else None


def _next_due(due_ns: int, period_ns: int, now_ns: int) -> int:
    """The next time in step with the period; a full period from now after falling behind."""
    return due_ns + period_ns if due_ns + period_ns > now_ns else now_ns + period_ns
