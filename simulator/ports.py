# SPDX-License-Identifier: Apache-2.0
"""Turns a policy into the settings of ports: marking, buffer bound and queue discipline."""

from __future__ import annotations

from sluice.policy.controls import Need
from sluice.policy.network.graph import Port
from sluice.policy.schema.desired import Policy
from sluice.policy.schemes import QueueRule
from sluice.policy.schemes.ports import (
    HOST_BURST_BYTES,
    PHANTOM_PERCENT,
    PortMarking,
    last_mark_bytes,
    least_class_rate_bps,
    port_burst_bytes,
)
from sluice.policy.workload.scenario import SimulatorSettings
from sluice.simulator import _fabric
from sluice.simulator.layout import MakePort

UNBOUNDED_BYTES = 2**62
UNSHAPED_BPS = 100_000_000_000
"""The rate of a host's link that takes almost no time at the rates of the testbed."""
QUEUES = 8
SHARE_BURST_BYTES = 3028
"""Two full frames: what a queue with a share may send at once after a pause."""


def port_maker(policy: Policy, simulator: SimulatorSettings) -> MakePort:
    """A function that gives a port its settings and discipline, by its link."""

    def make(link: Port, of_host: bool) -> tuple[_fabric.PortSettings, _fabric.Discipline]:
        settings = _fabric.PortSettings()
        if simulator.links == "emulated":
            settings.burst_bytes = HOST_BURST_BYTES if of_host else port_burst_bytes(link.rate_bps)
        if of_host and simulator.uplink == "kernel":
            settings.buffer_bytes, settings.tells_hosts = UNBOUNDED_BYTES, True
            return settings, _fabric.Discipline()
        if of_host and simulator.uplink != "fabric":
            settings.buffer_bytes = UNBOUNDED_BYTES
            settings.bps = UNSHAPED_BPS if simulator.uplink == "unshaped" else 0
            return settings, _fabric.Discipline()
        settings.buffer_bytes = policy.buffer
        settings.grants_rates = Need.EXPLICIT_RATES in policy.needs
        settings.drop_order = _drop_order(policy, simulator)
        settings.count_tags = not of_host and policy.definition.threshold_rule.adapts
        _mark(settings, policy.port_marking if link.edge else policy.core_marking, link.rate_bps)
        made = discipline(policy)
        if simulator.links == "emulated" and not of_host:
            _serve_as_htb(made, link.rate_bps)
        return settings, made

    return make


def _drop_order(policy: Policy, simulator: SimulatorSettings) -> _fabric.DropOrder:
    if not policy.urgent_first:
        return _fabric.DropOrder.arrival
    by_push_out = simulator.drop_by == "push-out"
    return _fabric.DropOrder.push_out if by_push_out else _fabric.DropOrder.urgency


def _mark(settings: _fabric.PortSettings, marking: PortMarking, rate_bps: int) -> None:
    settings.mark_bytes = marking.mark_bytes or 0
    settings.mark_max_bytes = marking.mark_max_bytes or 0
    settings.mark_by = _fabric.MarkBy[marking.mark_by]
    settings.last_queue = marking.last_queue
    settings.last_mark_bytes = last_mark_bytes(marking.mark_bytes, marking.last_mark_factor)
    if marking.phantom_mark_bytes is not None:
        settings.phantom_rate_bps = rate_bps * PHANTOM_PERCENT // 100
        settings.phantom_mark_bytes = marking.phantom_mark_bytes


def discipline(policy: Policy) -> _fabric.Discipline:
    """How packets wait at each port."""
    made = _fabric.Discipline()
    if policy.definition.queue_rule is QueueRule.SHORTEST_FIRST:
        made.scheduler = _fabric.Scheduler.shortest_first
        return made
    if policy.shares:
        made.scheduler = _fabric.Scheduler.shares
        made.shares = [*policy.shares, *[0.0] * (QUEUES - len(policy.shares))]
        made.burst_bytes = SHARE_BURST_BYTES
    if policy.flow_queues and policy.sub_queues and policy.release is not None:
        made.flow_queues = True
        made.sub_queues = policy.sub_queues
        made.release_ns = policy.release
    return made


def _serve_as_htb(made: _fabric.Discipline, rate_bps: int) -> None:
    """Give each queue of a port the least rate and the credit of a class of HTB."""
    if made.scheduler == _fabric.Scheduler.shortest_first:
        return
    shares = made.shares if made.scheduler == _fabric.Scheduler.shares else [0.0] * QUEUES
    made.scheduler = _fabric.Scheduler.shares
    made.shares = [max(share, least_class_rate_bps(rate_bps) / rate_bps) for share in shares]
    made.burst_bytes = port_burst_bytes(rate_bps)
