# SPDX-License-Identifier: Apache-2.0
"""One switch in memory and its state, driven to rest or through time without a network."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.controller import state
from sluice.controller.changes import Changes, Remap
from sluice.controller.openflow.counters import CounterReply, FlowCounts, Ints
from sluice.controller.pipeline import switch_rules
from sluice.controller.policing import overlay
from sluice.controller.policing.hosts import Verdict
from sluice.controller.policing.overlay import PolicingOverlay
from sluice.controller.port_settings import ThresholdsInForce
from sluice.controller.rules import SwitchRules
from sluice.controller.state import Change, Desired, Operation, SwitchState
from sluice.controller.tables import Table
from sluice.policy import tags
from sluice.policy.network.graph import INGRESS_GROUPS, TRUNKS, Topology
from sluice.policy.schema.desired import Policy, queue_map
from sluice.policy.thresholds.adaptation import PortCounters
from tests.fakes.switch import FakeSwitch
from tests.kit.controller import counted
from tests.kit.networks import single

KB = 1_000


def policy(scheme: str = "mlfq-adaptive", **fields: Any) -> Policy:
    return Policy.from_document({"scheme": scheme, **fields})


def port_counts(rows: Sequence[Ints] | Ints, reported: Sequence[bool] | None = None) -> CounterReply:
    """Return counters as the codec does; every port is reported unless given."""
    mask: npt.NDArray[np.bool_] = np.asarray([True] * len(rows) if reported is None else reported)
    return CounterReply(np.stack(list(rows)), mask, len(rows))


def as_changes(changes: Changes | Remap) -> Changes:
    """Return a remap rule by rule."""
    if isinstance(changes, Changes):
        return changes
    return Changes(modify=SwitchRules(flows=tuple(changes.rule(i) for i in range(len(changes)))))


def everything_is_mapped(switch: FakeSwitch, topology: Topology) -> bool:
    """Whether every port has one map rule for every tag."""
    maps = [rule for rule in switch.flows.values() if rule.table == Table.MAP and rule.match]
    return len(maps) == len(topology.ports) * (tags.TAG_COUNT + 1)


def fresh(desired: Desired, thresholds_of: dict[str, tuple[int, ...]]) -> FakeSwitch:
    """Return what a new controller would install for these thresholds by port id."""
    maps = {p.number: queue_map(desired.policy, thresholds_of[p.id]) for p in desired.topology.ports}
    return FakeSwitch(switch_rules(desired.topology, "s1", maps))


class DrivenSwitch:
    """Carries out each operation at once, as a session with an ideal switch would."""

    def __init__(self, desired: Desired, switch: FakeSwitch | None = None) -> None:
        self.desired = desired
        self.switch = switch or FakeSwitch()
        self.now_ns = 0
        self.policing = PolicingOverlay("s1", desired, lambda _, verdict: self._verdicts.append(verdict))
        self._verdicts: list[Verdict] = []
        self.state = SwitchState("s1", desired, overlay=self.policing)
        self.state.connected(self.now_ns)
        ports = desired.topology.ports
        self.completed = {p.number: np.zeros(tags.ATTAINED_BUCKETS, np.int64) for p in ports}
        self.carried = {p.number: np.zeros((2, tags.TAG_COUNT), np.int64) for p in ports}
        self.ingress = np.zeros((len(self.policing.hosts.port_numbers), 2, tags.TAG_COUNT), np.int64)
        self.learned: list[FlowCounts] = []
        self.changes: list[Changes | Remap] = []
        self.news: list[ThresholdsInForce] = []
        self.mapped_at_all_times = True
        self.has_meters = True

    def want(self, version: int, wanted: Policy) -> None:
        """Adopt another policy, and do everything that is due now."""
        self.state.want(Desired(single(), version, wanted))
        self.settle()

    def settle(self) -> None:
        """Do everything that is due now."""
        while (operation := self.state.next_operation(self.now_ns)) is not None:
            self._carry_out(operation)

    def _carry_out(self, operation: Operation) -> None:
        match operation:
            case state.ReadRules():
                self.state.rules_read(self.switch.rules, has_meters=self.has_meters)
            case Change(changes):
                self.switch.apply(as_changes(changes))
                self.changes.append(changes)
                self.news += self.state.applied()
                mapped = everything_is_mapped(self.switch, self.desired.topology)
                self.mapped_at_all_times &= mapped
            case state.CARRIED:
                self.state.observe_carried(self.carried_counts())
            case state.COMPLETED:
                self.state.observe_completed(self.now_ns, self.completed_counts())
            case overlay.READ_FLOWS:
                self.policing.hosts.observe_flows(self.now_ns, self.learned)
            case state.Poll(Table.INGRESS):
                counts = port_counts(self.ingress.copy())
                self.policing.observe_ingress(
                    self.now_ns, counts, all_tags=operation == overlay.READ_ALL_TAGS
                )

    def take_verdicts(self) -> list[Verdict]:
        """Return the verdicts about hosts since the last call."""
        self.policing.report()
        verdicts, self._verdicts = self._verdicts, []
        return verdicts

    def carried_counts(self) -> CounterReply:
        return port_counts(list(self.carried.values()))

    def completed_counts(self) -> CounterReply:
        by_group = np.zeros((len(self.completed), INGRESS_GROUPS, tags.ATTAINED_BUCKETS), np.int64)
        by_group[:, TRUNKS] = list(self.completed.values())
        return port_counts(by_group)

    def carries(self, port: int, counters: PortCounters) -> None:
        """Let traffic cross a port."""
        self.carried[port] += np.stack([counters.packets[0], counters.bytes[0]])
        self.completed[port] += counters.completed[0].sum(axis=0)

    def run(
        self, duration_ms: int, flows_per_ms: int = 0, draw: Callable[[], int] = lambda: 0, step_ms: int = 10
    ) -> list[tuple[int, ...]]:
        """Let time pass while flows of `draw()` bytes complete at port 1.

        Returns the port's thresholds after each step.
        """
        history = []
        for _ in range(0, duration_ms, step_ms):
            self.now_ns += step_ms * state.MS
            self.carries(1, counted([draw() for _ in range(flows_per_ms * step_ms)]))
            self.settle()
            history.append(self.thresholds("s1:1"))
        return history

    def thresholds(self, port: str) -> tuple[int, ...]:
        """Return the latest thresholds in force at a port, in bytes."""
        return next(news.thresholds_bytes for news in reversed(self.news) if news.port == port)


def settled(wanted: Policy) -> DrivenSwitch:
    """Return a switch of a star that implements version 1 of a policy."""
    driven = DrivenSwitch(Desired(single(), 1, wanted))
    driven.settle()
    return driven
