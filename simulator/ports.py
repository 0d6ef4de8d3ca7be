# SPDX-License-Identifier: Apache-2.0
"""From a policy to what the ports of a fabric do: marks, buffer bound, queue discipline."""

from __future__ import annotations

from policy.desired import Policy
from policy.marking import PHANTOM_PERCENT
from policy.schemes import ThresholdRule
from simulator import _fabric
from simulator.layout import MakePort

UNBOUNDED_BYTES = 2**62
SHARE_BURST_BYTES = 3028
"""Two full frames: what a queue may send at once on its own account, after a silence."""


def port_maker(policy: Policy, *, core_rate_bps: int | None, free_uplinks: bool) -> MakePort:
    """`core_rate_bps`: of the links that have a marking threshold of their own; `free_uplinks`: hosts' ports only serialise."""

    def make(rate_bps: int, of_host: bool) -> tuple[_fabric.PortSettings, _fabric.Discipline]:
        settings = _fabric.PortSettings()
        if of_host and free_uplinks:
            settings.buffer_bytes = UNBOUNDED_BYTES
            return settings, _fabric.Discipline()
        settings.buffer_bytes = policy.buffer
        settings.grants_rates = policy.definition.congestion_control == "d3"
        settings.count_tags = not of_host and policy.definition.threshold_rule in ADAPTIVE
        _mark(settings, policy, rate_bps, core=rate_bps == core_rate_bps)
        return settings, discipline(policy)

    return make


ADAPTIVE = tuple(rule for rule in ThresholdRule if rule not in (ThresholdRule.NONE, ThresholdRule.STATIC))
"""Rules that need a port's counters."""


def _mark(settings: _fabric.PortSettings, policy: Policy, rate_bps: int, *, core: bool) -> None:
    marking = policy.port_marking
    settings.mark_bytes = marking.mark_bytes or 0
    if core and policy.mark_at_core is not None:
        settings.mark_bytes = policy.mark_at_core
    settings.mark_max_bytes = marking.mark_max_bytes or 0
    if marking.phantom_mark_bytes is not None:
        settings.phantom_rate_bps = rate_bps * PHANTOM_PERCENT // 100
        settings.phantom_mark_bytes = marking.phantom_mark_bytes


def discipline(policy: Policy) -> _fabric.Discipline:
    """How packets wait at every port."""
    made = _fabric.Discipline()
    if policy.definition.congestion_control == "pfabric":
        made.between = _fabric.Between.shortest_first
        return made
    if policy.shares:
        made.between = _fabric.Between.shares
        made.shares = [*policy.shares, *[0.0] * (8 - len(policy.shares))]
        made.burst_bytes = SHARE_BURST_BYTES
    if policy.flow_queues:
        made.flow_queues = True
        made.sub_queues = policy.sub_queues
        made.release_ns = policy.release
    return made
