# SPDX-License-Identifier: Apache-2.0
"""What one switch should hold and what is to be done about it: the controller's thinking, without I/O or clock.

    unknown ──read──▶ known ──change──▶ right ──poll──▶ (thresholds move) ──change──▶ right …

The shell asks `next_operation` and says how it went (`rules_read`, `applied`, `refused`, `counted`). There is one
operation at a time for each switch, so whatever the state says of the switch stays true until the answer. Work is in
ports × tags; how many flows cross the switch makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from controller.pipeline import Changes, Remap, SwitchRules, diff, remap, switch_rules, treat
from controller.policing import (
    ALL_TAGS_EVERY,
    INGRESS_POLL_NS,
    WITNESS_POLL_NS,
    FlowSeen,
    Policing,
    Verdict,
)
from policy import tags
from policy.adaptation import Adaptation, PortCounters, edges_of
from policy.desired import Policy
from policy.graph import Topology
from policy.queue_map import QueueMap, queue_map
from policy.sanctions import Treatment
from policy.schemes import ThresholdRule

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
    offences: Mapping[str, int] = field(default_factory=dict)
    """Of the hosts that were demoted before the controller started, by port id."""


# ── What to do next ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ReadRules:
    """Read all rules and groups."""


@dataclass(frozen=True)
class Change:
    """Make these changes in one atomic bundle and wait for the barrier."""

    changes: Changes | Remap


@dataclass(frozen=True)
class PollCarried:
    """Read the counters of packets and bytes by port and tag, just before those of completed flows."""


@dataclass(frozen=True)
class PollCompleted:
    """Read the counters of completed flows."""


@dataclass(frozen=True)
class PollQueues:
    """Read the queue statistics."""


@dataclass(frozen=True)
class PollIngress:
    """Read the counters of packets and bytes by edge port and tag: of all tags, or of those below LOW_TAGS."""

    all_tags: bool


@dataclass(frozen=True)
class PollWitness:
    """Read the counters of the flows of watched ports."""


Operation: TypeAlias = (
    ReadRules | Change | PollCarried | PollCompleted | PollQueues | PollIngress | PollWitness
)


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


Ints: TypeAlias = npt.NDArray[np.int64]


class Counted(Protocol):
    """Cumulative counters of this switch's ports, a row each in the order of `SwitchState.numbers`."""

    @property
    def counts(self) -> Ints:
        """Shape (P, kinds, codes)."""

    @property
    def seen(self) -> npt.NDArray[np.bool_]:
        """The switch has told of the port, shape (P,)."""


class SwitchState:
    """One switch of the topology, connected or not. Its ports are rows, in the order of their numbers."""

    def __init__(self, name: str, desired: Desired, phase: float = 0.0) -> None:
        """`phase`, from 0 to 1: the part of a polling interval at which this switch is asked, and the others not."""
        self.name = name
        self._topology, self._phase = desired.topology, phase
        self._ports = desired.topology.ports_of[name]
        self.numbers: Ints = np.asarray([port.number for port in self._ports], np.int64)
        self._id_of = {port.number: port.id for port in self._ports}
        self._held: SwitchRules | None = None
        self._in_force: list[_Setting] | None = None
        self._differ: set[int] = set()
        """Rows whose rules do not stand at what is wanted."""
        self._changing_to: dict[int, _Setting] = {}
        self._applied_version = self._changing_to_version = desired.version
        self._not_before_ns = 0
        self._policing = Policing(self._ports, desired.policy, desired.offences)
        self._treated: dict[int, Treatment] = {}
        """How the rules in force treat ports; those of an unknown switch are found out with all others."""
        self._treating_as: dict[int, Treatment] | None = None
        self._adopt(desired)
        learned = desired.learned if self._adaptive else {}
        self._wanted = [
            self._setting(self._policy.fixed_at(port.id) or learned.get(port.id, self._policy.thresholds))
            for port in self._ports
        ]
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
        self._policing.adopt(desired.policy)
        alike = self._policy.has_levels_of(before)
        keep = self._adaptive and alike and before.thresholds == self._policy.thresholds
        for row, (port, setting) in enumerate(zip(self._ports, self._wanted, strict=True)):
            stays = keep or (alike and self._policy.is_frozen(port.id))
            thresholds = self._policy.fixed_at(port.id) or (
                setting.thresholds if stays else self._policy.thresholds
            )
            self._wanted[row] = self._setting(thresholds, setting.flows if stays else 0)
        self._differ = set(range(len(self._ports)))
        if keep:
            self._adaptation.adopt(self._policy)
            self._adaptation.edges = self._edges()
            self._hold()
        else:
            self._forget()

    def _adopt(self, desired: Desired) -> None:
        self._policy, self._version = desired.policy, desired.version
        rule = desired.policy.definition.threshold_rule
        self._adaptive, self._weighs = rule.adapts, rule is ThresholdRule.ONLINE
        self._carried: Ints | None = None
        self._maps: dict[tuple[int, ...], QueueMap] = {}
        window_ns = desired.policy.window_ms * MS
        self._poll_ns = max(MIN_POLL_NS, min(desired.policy.interval_ms * MS, window_ns // 4))

    def _setting(self, thresholds: tuple[int, ...], flows: int = 0) -> _Setting:
        snapped = tuple(tags.snap_to_edge(threshold) for threshold in thresholds)
        if snapped not in self._maps:
            self._maps[snapped] = queue_map(self._policy, snapped)
        return _Setting(self._version, snapped, self._maps[snapped], flows)

    def _forget(self) -> None:
        """Nothing has been seen yet."""
        self._carried = None
        self._last_counts: dict[bool, Ints] = {}
        self._adaptation = Adaptation(
            self._policy,
            [port.rate_bps for port in self._ports],
            [setting.thresholds for setting in self._wanted],
        )
        self._hold()

    def _edges(self) -> Ints:
        return edges_of([setting.thresholds for setting in self._wanted])

    def _hold(self) -> None:
        overridden = [self._policy.override_of(port.id) is not None for port in self._ports]
        self._adaptation.held = np.asarray(overridden, bool)

    # ── The conversation with the switch ───────────────────────────────────────────────────────────────────────────

    def connected(self, now_ns: int) -> None:
        """A new connection: nothing is known of the switch, and the counters start from a new baseline."""
        self._held = None
        self._in_force = None
        self._differ.clear()
        self._forget()
        self._policing.connected(now_ns)
        self._not_before_ns = now_ns
        self._next_completed_ns = self._slot(now_ns, self._poll_ns)
        self._next_adjust_ns = self._slot(now_ns, self._policy.interval_ms * MS)
        self._next_queues_ns = self._slot(now_ns, QUEUE_POLL_NS)
        self._next_ingress_ns = self._slot(now_ns, INGRESS_POLL_NS)
        self._next_witness_ns = self._slot(now_ns, WITNESS_POLL_NS)
        self._ingress_polls = 0

    def _slot(self, now_ns: int, period_ns: int) -> int:
        """The next time at which it is this switch's turn; what has been missed is not made up for."""
        begin_ns = int(self._phase * period_ns)
        return now_ns + period_ns - (now_ns - begin_ns) % period_ns

    def next_operation(self, now_ns: int) -> Operation | None:
        """The most urgent thing to do on an idle connection; None when nothing is due."""
        if now_ns < self._not_before_ns:
            return None
        if self._in_force is None:
            return ReadRules() if self._held is None else self._first_change(self._held)
        if self._applied_version != self._version or self._differ:
            return self._next_change(self._in_force)
        if self._treated != self._policing.treatments:
            return self._next_treatment()
        if self._adaptive and now_ns >= self._next_completed_ns:
            if self._weighs and self._carried is None:
                return PollCarried()
            self._next_completed_ns = self._slot(now_ns, self._poll_ns)
            return PollCompleted()
        if now_ns >= self._next_queues_ns:
            self._next_queues_ns = self._slot(now_ns, QUEUE_POLL_NS)
            return PollQueues()
        return self._next_look(now_ns)

    def _next_look(self, now_ns: int) -> Operation | None:
        """Whether hosts tell the truth."""
        if not self._policing.polices:
            return None
        if self._treated and now_ns >= self._next_witness_ns:
            self._next_witness_ns = self._slot(now_ns, WITNESS_POLL_NS)
            return PollWitness()
        if now_ns >= self._next_ingress_ns:
            self._next_ingress_ns = self._slot(now_ns, INGRESS_POLL_NS)
            self._ingress_polls += 1
            return PollIngress(all_tags=self._ingress_polls % ALL_TAGS_EVERY == 0)
        return None

    def rules_read(self, held: SwitchRules) -> None:
        self._held = held

    def _first_change(self, held: SwitchRules) -> Change:
        """Whatever differs from what a fresh controller would install."""
        self._change_under_way(range(len(self._wanted)))
        queue_maps = {
            port.number: setting.queue_of for port, setting in zip(self._ports, self._wanted, strict=True)
        }
        self._treating_as = self._policing.treatments
        wanted = switch_rules(self._topology, self.name, queue_maps, self._treating_as)
        return Change(diff(held, wanted))

    def _next_treatment(self) -> Change:
        """The rules of the ports that are treated otherwise from now on."""
        self._change_under_way(())
        self._treating_as = self._policing.treatments
        return Change(treat(self._treated, self._treating_as))

    def _next_change(self, in_force: Sequence[_Setting]) -> Change:
        """The map rules whose queue changes, of all ports together."""
        rows = sorted(self._differ)
        self._change_under_way(rows)
        return Change(
            remap(
                [self._ports[row].number for row in rows],
                [in_force[row].queue_of for row in rows],
                [self._wanted[row].queue_of for row in rows],
            )
        )

    def _change_under_way(self, rows: Iterable[int]) -> None:
        self._changing_to = {row: self._wanted[row] for row in rows}
        self._changing_to_version = self._version

    def applied(self) -> list[ThresholdsInForce]:
        """The switch has acknowledged the change; returns the ports whose thresholds or version are news."""
        before = self._in_force
        in_force = list(before) if before is not None else list(self._changing_to.values())
        news = []
        for row, setting in self._changing_to.items():
            in_force[row] = setting
            if before is None or not setting.same(before[row]):
                port_id = self._ports[row].id
                news.append(ThresholdsInForce(port_id, setting.version, setting.thresholds, setting.flows))
            if self._wanted[row].same(setting):
                self._differ.discard(row)
        if self._treating_as is not None:
            self._treated, self._treating_as = self._treating_as, None
        self._in_force, self._applied_version = in_force, self._changing_to_version
        self._held = None
        return news

    def refused(self, now_ns: int) -> None:
        """The switch refused the change as a whole: find out later what it holds, and try again."""
        self._held = None
        self._in_force = None
        self._not_before_ns = now_ns + RETRY_NS

    # ── Adapting ───────────────────────────────────────────────────────────────────────────────────────────────────

    def carried(self, counted: Counted) -> None:
        """Take the cumulative counters of packets and bytes by tag; those of completed flows come next."""
        self._carried = self._told(counted, completed=False)

    def counted(self, now_ns: int, counted: Counted) -> None:
        """Take the cumulative counters of completed flows, and move thresholds when it is time to."""
        carried, self._carried = self._carried, None
        if self._weighs and carried is None:
            return
        counters = PortCounters.of_completed(self._told(counted, completed=True)[:, 0])
        if carried is not None:
            counters = PortCounters(carried[:, 0], carried[:, 1], counters.completed)
        self._adaptation.observe(now_ns, counters)
        if self._adaptive and now_ns >= self._next_adjust_ns:
            self._next_adjust_ns = self._slot(now_ns, self._policy.interval_ms * MS)
            self._adjust()

    # ── Policing ───────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def edge_numbers(self) -> Ints:
        """Ports to which hosts are attached: the rows of `ingress`."""
        return self._policing.numbers

    def ingress(self, now_ns: int, counted: Counted, *, all_tags: bool) -> None:
        """Take the cumulative counters by edge port and tag; of no port, if one is missing."""
        if counted.seen.all():
            self._policing.ingress(now_ns, counted.counts, all_tags=all_tags)

    def witnessed(self, now_ns: int, flows: Iterable[FlowSeen]) -> None:
        """Take the counters of the flows of watched ports."""
        self._policing.witnessed(now_ns, flows)

    @property
    def demoted_ports(self) -> list[str]:
        """Names of the ports whose hosts are demoted."""
        treatments = self._policing.treatments
        return [self._id_of[n] for n, as_ in treatments.items() if as_ is Treatment.DEMOTED]

    def verdicts(self) -> list[Verdict]:
        """What has been decided about hosts since the last time."""
        return self._policing.verdicts()

    # ── Counters ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _told(self, counted: Counted, *, completed: bool) -> Ints:
        """The counters; of a port of which the switch has said nothing, the last ones."""
        last = self._last_counts.get(completed)
        counts = counted.counts
        if last is not None and not counted.seen.all():
            counts = np.where(counted.seen[:, None, None], counts, last)
        self._last_counts[completed] = counts
        return counts

    def _adjust(self) -> None:
        rows = np.flatnonzero(self._adaptation.adjust()).tolist()
        flows = self._adaptation.flows if rows else ()
        for row in rows:
            self._wanted[row] = self._setting(self._adaptation.thresholds(row), int(flows[row]))
            if self._in_force is None or not self._wanted[row].same(self._in_force[row]):
                self._differ.add(row)

    def port_id(self, number: int) -> str | None:
        """Name of a port by its number; None for one that the topology does not have."""
        return self._id_of.get(number)
