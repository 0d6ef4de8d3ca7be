# SPDX-License-Identifier: Apache-2.0
"""What a scheme is made of: a congestion control for the hosts; thresholds, queues and marking for the ports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from policy.controls import Control
from policy.needs import Need
from policy.queue_rules import QueueRule
from policy.units import PACKET_BYTES

__all__ = ["Marking", "QueueRule", "Scheme", "ThresholdRule"]


class ThresholdRule(StrEnum):
    """Where a port's demotion thresholds come from."""

    NONE = "none"
    STATIC = "static"
    """Given in the policy, the same at every port (PIAS)."""
    PERCENTILE = "percentile"
    """Percentiles of the flow sizes that completed at the port in a sliding window (Gutiérrez et al., section 3)."""
    ONLINE = "online"
    """Those under which the flows that the port has seen would be slowed down least (policy/online_thresholds.py)."""

    @property
    def adapts(self) -> bool:
        """The thresholds of a port follow what it counts."""
        return self in (ThresholdRule.PERCENTILE, ThresholdRule.ONLINE)


class Marking(StrEnum):
    """When a port sets ECN congestion experienced."""

    NONE = "none"
    PORT = "port"
    """When the port's whole backlog exceeds the marking threshold K."""
    RED = "red"
    """By chance, which grows linearly with the port's whole backlog from min to max; always above max."""
    PHANTOM = "phantom"
    """When a phantom queue, which drains more slowly than the link, exceeds its threshold."""


@dataclass(frozen=True)
class Scheme:
    """A composition; nothing scheme-specific exists outside these values."""

    name: str
    title: str
    paper: str
    control: Control
    """The congestion control that hosts use."""
    threshold_rule: ThresholdRule
    queue_rule: QueueRule
    marking: Marking
    queues: int
    """Queues by default."""
    thresholds_bytes: tuple[int, ...]
    """Static or initial demotion thresholds by default; length queue_rule.demotions(queues)."""
    colour: str
    """Hex colour of the scheme in every plot and page."""
    marks_bytes: tuple[int, ...] = (65 * PACKET_BYTES,)
    """Default thresholds of the marking: K; min and max of a ramp; the phantom queue's; none without marking."""
    tags_deadlines: bool = False
    """Deadline flows carry their urgency in the tag instead of their bytes."""
    urgent_after_bytes: int = 0
    """By default, they do so once they have sent this much; before, they are tagged as any other flow."""
    tags_sizes: bool = False
    """Flows of known size carry their size class in the tag."""
    flow_queues: bool = False
    """By default, each flow has a queue of its own inside its priority."""
    least_share: float = 0.0
    """By default, the share of the link that every queue below the first keeps; 0: strict priorities."""
    min_flows: int = 5
    """By default, thresholds are adjusted when so many flows have completed in the window."""

    @property
    def needs(self) -> frozenset[Need]:
        """What a fabric must be able to do, whatever the policy's fields say."""
        asked = (self.control.needs, self.queue_rule.needs)
        return frozenset(need for need in asked if need is not None)

    @property
    def congestion_control(self) -> str:
        """TCP_CONGESTION name that agents select, as records and settings tell it."""
        return self.control.kernel_name

    @property
    def simulator_only(self) -> bool:
        """No field of a policy makes this scheme possible on switches as they are."""
        return bool(self.needs)
