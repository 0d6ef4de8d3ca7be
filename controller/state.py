# SPDX-License-Identifier: Apache-2.0
"""One switch: what it should hold, and which operation is next. Pure: the caller passes the time.

    unknown ──read──▶ known ──change──▶ right ──poll──▶ (thresholds move) ──change──▶ right …

The session calls `next_operation`, carries the operation out and reports the result (`rules_read`,
`applied`, `refused`, `observe_…`). It carries out one operation at a time, so the state's picture
of the switch stays true until the answer. The work is proportional to ports × tags, and the number
of flows makes no difference.

Periods: when each of several repeated tasks is due next.

Each task has a grid of times: its period, shifted by `phase` of a period. Switches with different
phases are polled one after another, so their replies do not arrive at one instant.

    grid of a task     ├────────┼────────┼────────┼────────┼──▶ time
    taken at                ✓              ✓ ✗        ✓         ✗: not due again before the grid
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, TypeAlias

import numpy as np

from sluice.controller.changes import Changes, Remap, diff
from sluice.controller.openflow.counters import CounterReply, Ints
from sluice.controller.pipeline import PriorityTag, bridging_rules, forwarding_rules, switch_rules
from sluice.controller.port_settings import PortSettings, ThresholdsInForce
from sluice.controller.rules import SwitchRules
from sluice.controller.tables import Table
from sluice.policy.network.graph import Topology
from sluice.policy.schema.desired import Policy
from sluice.policy.thresholds.adaptation import Adaptation, PortCounters, edges_of
from sluice.policy.units import MSS_BYTES

# ── Operations ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ReadRules:
    """Read all rules and groups."""


@dataclass(frozen=True)
class Change:
    """Make these changes in one atomic bundle and wait for the barrier."""

    changes: Changes | Remap


@dataclass(frozen=True)
class Poll:
    """Read the counters of a table."""

    table: Table
    tags_below: int | None = None
    """Only the counters of tags below this power of two; None: all."""


CARRIED = Poll(Table.MAP)
"""Packets and bytes by egress port and tag. COMPLETED follows at once."""
COMPLETED = Poll(Table.ENDS)
"""Completed flows."""
HOSTS = Poll(Table.HOSTS)
"""The hosts behind the edge ports."""


@dataclass(frozen=True)
class PollQueues:
    """Read the queue statistics."""


Operation: TypeAlias = ReadRules | Change | Poll | PollQueues


# ── Periods ─────────────────────────────────────────────────────────────────────────────────────────


class Periods:
    """The next time of each task. A time that was missed is skipped: a task is never due twice."""

    def __init__(self, periods_ns: Mapping[Any, int], phase: float = 0.0) -> None:
        """`phase` is from 0 to 1: a part of each period. Until `restart` no task is due."""
        self._periods_ns: dict[Hashable, int] = dict(periods_ns)
        self._phase = phase
        self._next_ns: dict[Hashable, int] = {}

    def restart(self, now_ns: int) -> None:
        """Forget all earlier times: each task is due at its first grid time after `now_ns`."""
        self._next_ns = {task: self._grid_time_after(task, now_ns) for task in self._periods_ns}

    def change(self, task: Hashable, period_ns: int) -> None:
        """Give a task another period. Its next time stays; the new period counts from then on."""
        self._periods_ns[task] = period_ns

    def is_due(self, task: Hashable, now_ns: int) -> bool:
        return task in self._next_ns and now_ns >= self._next_ns[task]

    def take(self, task: Hashable, now_ns: int) -> bool:
        """Return whether the task is due. If it is, its next time is the grid time after now."""
        if not self.is_due(task, now_ns):
            return False
        self._next_ns[task] = self._grid_time_after(task, now_ns)
        return True

    def _grid_time_after(self, task: Hashable, now_ns: int) -> int:
        period_ns = self._periods_ns[task]
        first_ns = int(self._phase * period_ns)
        return now_ns + period_ns - (now_ns - first_ns) % period_ns


# ── The overlay ─────────────────────────────────────────────────────────────────────────────────────


class RuleOverlay:
    """The interface of what lays rules of its own over those of the pipeline, by counters of its own.

    A state tells its overlay what it adopts and what the switch has acknowledged, and asks it for changes and polls
    when none of its own is due. This one adds nothing. `policing/` adds what a switch does with hosts that send false
    tags.
    """

    def adopt(self, topology: Topology, policy: Policy, tag_burst_bytes: int) -> None:
        """Adopt another policy, other hosts and paths. The ports of the network are the same."""

    def connected(self, now_ns: int) -> None:
        """Begin with a new connection: the counters of the switch are unknown."""

    def set_meters(self, *, available: bool) -> None:
        """Take whether rules may name meters. The state says so before each change of all rules."""

    def begin_all(self, pipeline: SwitchRules) -> SwitchRules:
        """Begin a change of all rules. Returns those of the pipeline with those of the overlay."""
        return pipeline

    @property
    def outdated(self) -> bool:
        """Whether the rules in force differ from the desired ones."""
        return False

    def begin_differences(self) -> Changes:
        """Begin a change of the rules that differ. Returns it."""
        return Changes()

    def applied(self) -> None:
        """Take the acknowledgement of a change, whether the overlay has begun it or not."""

    def next_poll(self, now_ns: int) -> Poll | None:
        """Return the most urgent poll; None if none is due."""
        return None

    def observe(self, now_ns: int, poll: Poll, statistics: bytes) -> int:
        """Take the flow statistics that answer a poll. Returns the number of entries."""
        return 0


# ── The switch ──────────────────────────────────────────────────────────────────────────────────────


MS = 1_000_000
MIN_POLL_NS = 50 * MS
QUEUE_POLL_NS = 1_000 * MS
HOSTS_POLL_NS = 1_000 * MS
RETRY_NS = 1_000 * MS
"""From a refused change until the controller reads the rules and tries again."""


@dataclass(frozen=True)
class Desired:
    """What the store wants of the network."""

    topology: Topology
    version: int
    policy: Policy
    learned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Port id → thresholds that an earlier controller has computed under this version."""
    offences: Mapping[str, int] = field(default_factory=dict)
    """Port id → offences, for the hosts that were demoted before the controller started. Only policing asks."""
    programmed: frozenset[str] | None = None
    """Ids of the ports with the port program, which takes priority tags off. None: all ports have it."""
    bridging: frozenset[str] = frozenset()
    """Names of the switches that keep their own forwarding, because rules would not keep their VLANs or bonds."""
    tag_burst_bytes: int = MSS_BYTES
    """The most payload under one tag that an agent reports of its host."""
    generation: int = 0
    """Of the lease under which this was read."""

    def acting_ports(self, switch: str) -> frozenset[str]:
        """Return the ids of the ports whose rules choose a queue."""
        tagged = self.topology.switch_by_name[switch].priority_tags
        usable = self.programmed if tagged else None
        return frozenset(
            port.id
            for port in self.topology.ports_of[switch]
            if self.policy.acts_at_port(port.id) and (usable is None or port.id in usable)
        )


class Task(Enum):
    """What is done with a switch again and again."""

    POLL_COMPLETED = auto()
    ADJUST = auto()
    POLL_QUEUES = auto()
    POLL_HOSTS = auto()


_PERIODS_NS = {Task.POLL_QUEUES: QUEUE_POLL_NS, Task.POLL_HOSTS: HOSTS_POLL_NS}


def _policy_periods_ns(policy: Policy) -> dict[Task, int]:
    """Return the periods that depend on the policy. A window has at least four polls."""
    interval_ns = policy.interval_ms * MS
    poll_ns = max(MIN_POLL_NS, min(interval_ns, policy.window_ms * MS // 4))
    return {Task.POLL_COMPLETED: poll_ns, Task.ADJUST: interval_ns}


class SwitchState:
    """One switch of the topology, connected or not.

    Its ports are rows, in order of their numbers.
    """

    def __init__(
        self, name: str, desired: Desired, phase: float = 0.0, overlay: RuleOverlay | None = None
    ) -> None:
        """`phase`, from 0 to 1: the part of each period at which this switch is polled."""
        self.name, self.dpid = name, desired.topology.switch_by_name[name].dpid
        self.overlay = overlay or RuleOverlay()
        self.first_table = desired.topology.switch_by_name[name].first_table
        """Of the pipeline, at this switch."""
        self._ports = desired.topology.ports_of[name]
        self.port_numbers: Ints = np.asarray([port.number for port in self._ports], np.int64)
        self._id_of = {port.number: port.id for port in self._ports}
        self._held: SwitchRules | None = None
        """Rules that have been read and not yet compared."""
        self._periods = Periods(_PERIODS_NS | _policy_periods_ns(desired.policy), phase)
        self._meters_refused = False
        """Whether the switch has refused a meter since it connected."""
        self._forwarding: SwitchRules | None = None
        """Forwarding rules in force; None if they are not known."""
        self._next_forwarding: SwitchRules | None = None
        """Forwarding rules of the running change."""
        self._adopt(desired)
        learned = desired.learned if self._adapts else {}
        thresholds = [
            self._policy.fixed_at(port.id) or learned.get(port.id, self._policy.thresholds)
            for port in self._ports
        ]
        tagged = PriorityTag.at(desired.topology, name)
        self._settings = PortSettings(
            self._ports, self._policy, desired.version, thresholds, self._acting, priority_tags=tagged
        )
        self.connected(0)

    # ── The desired state ───────────────────────────────────────────────────────────────────────

    @property
    def version(self) -> int | None:
        """The policy version that all rules implement; None if that is not known."""
        return self._settings.version

    def want(self, desired: Desired) -> None:
        """Adopt another policy, other hosts and paths. The ports of the network are the same.

        Ports keep the thresholds that they have learned if the policy has the same start.
        """
        before, acting, bridged = self._policy, self._acting, self._bridges
        self._adopt(desired)
        same_rules = acting == self._acting and before.reserved_dscp == self._policy.reserved_dscp
        if not same_rules or bridged or self._bridges:
            self._settings.forget()
        self.overlay.adopt(desired.topology, desired.policy, desired.tag_burst_bytes)
        self._settings.adopt(desired.policy, desired.version, self._acting)
        same_levels = self._policy.has_levels_of(before)
        keep = self._adapts and same_levels and before.thresholds == self._policy.thresholds
        for row, thresholds in enumerate(self._settings.desired_thresholds):
            port_id = self._ports[row].id
            stays = keep or (same_levels and self._policy.is_frozen(port_id))
            target = self._policy.fixed_at(port_id) or (thresholds if stays else self._policy.thresholds)
            self._settings.want(row, target, self._settings.desired_flows(row) if stays else 0)
        if keep:
            self._adaptation.adopt(self._policy, self._tag_burst_bytes)
            self._adaptation.edges = edges_of(self._settings.desired_thresholds)
            self._hold_overridden()
        else:
            self._restart_adaptation()

    def _adopt(self, desired: Desired) -> None:
        self._topology = desired.topology
        self._policy, self._acting = desired.policy, desired.acting_ports(self.name)
        acting = {self._topology.port_by_id[port].number for port in self._acting}
        self._desired_forwarding = forwarding_rules(self._topology, self.name, acting)
        self._bridges = self.name in desired.bridging
        self._adapts = desired.policy.definition.threshold_rule.adapts
        self._tag_burst_bytes = desired.tag_burst_bytes
        self._carried: Ints | None = None
        for task, period_ns in _policy_periods_ns(desired.policy).items():
            self._periods.change(task, period_ns)

    def _restart_adaptation(self) -> None:
        """Forget all counters: the next ones are a baseline."""
        self._carried = None
        self._latest_counts: dict[bool, Ints] = {}
        rates_bps = [port.rate_bps for port in self._ports]
        self._adaptation = Adaptation(
            self._policy, rates_bps, self._settings.desired_thresholds, self._tag_burst_bytes
        )
        self._hold_overridden()

    def _hold_overridden(self) -> None:
        overridden = [self._policy.override_of(port.id) is not None for port in self._ports]
        self._adaptation.held = np.asarray(overridden, bool)

    # ── The conversation with the switch ────────────────────────────────────────────────────────

    def connected(self, now_ns: int) -> None:
        """Begin with a new connection: the rules and counters of the switch are unknown."""
        self._held = None
        self._settings.forget()
        self._restart_adaptation()
        self.overlay.connected(now_ns)
        self._meters_refused = False
        self._not_before_ns = now_ns
        self._periods.restart(now_ns)

    def next_operation(self, now_ns: int) -> Operation | None:
        """Return the most urgent operation; None if nothing is due."""
        if now_ns < self._not_before_ns:
            return None
        if self._settings.version is None:
            if self._held is None:
                return ReadRules()
            # The difference from what a controller would install on an empty switch.
            self._next_forwarding = self._desired_forwarding
            queue_maps = self._settings.begin_all()
            if self._bridges:
                return Change(diff(self._held, bridging_rules()))
            pipeline = switch_rules(self._topology, self.name, queue_maps, self._policy.reserved_dscp)
            return Change(diff(self._held, self.overlay.begin_all(pipeline)))
        if self._bridges:
            return None
        if self._settings.outdated:
            return Change(self._settings.begin_differences())
        if self._forwarding != self._desired_forwarding:
            self._settings.begin_none()
            self._next_forwarding = self._desired_forwarding
            return Change(diff(self._forwarding or SwitchRules(), self._next_forwarding))
        if self.overlay.outdated:
            self._settings.begin_none()
            return Change(self.overlay.begin_differences())
        if self._adapts and self._periods.is_due(Task.POLL_COMPLETED, now_ns):
            if self._carried is None:
                return CARRIED
            self._periods.take(Task.POLL_COMPLETED, now_ns)
            return COMPLETED
        if self._periods.take(Task.POLL_QUEUES, now_ns):
            return PollQueues()
        if self._topology.learns and self._periods.take(Task.POLL_HOSTS, now_ns):
            return HOSTS
        return self.overlay.next_poll(now_ns)

    def rules_read(self, held: SwitchRules, *, has_meters: bool = True) -> None:
        """Take the rules that the switch holds, and whether it has meters."""
        self._held = held
        self.overlay.set_meters(available=has_meters and not self._meters_refused)

    def meter_refused(self) -> None:
        """Take the refusal of a meter. Until the next connection, no rule of this switch names one."""
        self._meters_refused = True

    def applied(self) -> list[ThresholdsInForce]:
        """Take the acknowledgement of a change. Returns ports with new thresholds or version."""
        self.overlay.applied()
        if self._next_forwarding is not None:
            self._forwarding, self._next_forwarding = self._next_forwarding, None
        self._held = None
        return self._settings.applied()

    def refused(self, now_ns: int) -> None:
        """Take the refusal of a whole change: read the rules again after RETRY_NS."""
        self._held = self._next_forwarding = None
        self._settings.forget()
        self._not_before_ns = now_ns + RETRY_NS

    # ── Adapting ────────────────────────────────────────────────────────────────────────────────

    def observe_carried(self, counts: CounterReply) -> None:
        """Take packets and bytes by tag. The counters of completed flows come next."""
        self._carried = self._complete(counts, completed=False)

    def observe_completed(self, now_ns: int, counts: CounterReply) -> None:
        """Take the counters of completed flows, and move thresholds when that is due."""
        carried, self._carried = self._carried, None
        if carried is None:
            return
        counters = PortCounters(carried[:, 0], carried[:, 1], self._complete(counts, completed=True))
        self._adaptation.observe(now_ns, counters)
        if self._adapts and self._periods.take(Task.ADJUST, now_ns):
            rows = np.flatnonzero(self._adaptation.adjust()).tolist()
            flows = self._adaptation.flows if rows else ()
            for row in rows:
                self._settings.want(row, self._adaptation.thresholds(row), int(flows[row]))

    def _complete(self, counts: CounterReply, *, completed: bool) -> Ints:
        """Return the counters; a port that the reply leaves out keeps its latest ones."""
        latest, values = self._latest_counts.get(completed), counts.values
        if latest is not None and not counts.reported.all():
            values = np.where(counts.reported[:, None, None], values, latest)
        self._latest_counts[completed] = values
        return values

    def port_id(self, number: int) -> str | None:
        """Return the id of a port by its number; None if the topology has no such port."""
        return self._id_of.get(number)
