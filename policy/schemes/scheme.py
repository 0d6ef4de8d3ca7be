# SPDX-License-Identifier: Apache-2.0
"""The parts of a scheme: a congestion control for the hosts; thresholds, queues and marking for the ports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sluice.policy.controls import Control, Need
from sluice.policy.schemes.ports import MarkBy
from sluice.policy.schemes.queues import QueueRule
from sluice.policy.units import PACKET_BYTES

__all__ = ["Marking", "QueueRule", "Scheme", "ThresholdRule"]


class ThresholdRule(StrEnum):
    """The source of a port's demotion thresholds."""

    NONE = "none"
    STATIC = "static"
    """Given in the policy, the same at every port (PIAS)."""
    PERCENTILE = "percentile"
    """Percentiles of the flow sizes that completed at the port in a sliding window (Gutiérrez et al., section 3)."""
    ONLINE = "online"
    """The thresholds with the least mean slowdown for the flows that the port has seen
    (policy/thresholds/online.py)."""

    @property
    def adapts(self) -> bool:
        """Whether a port's thresholds follow its counters."""
        return self in (ThresholdRule.PERCENTILE, ThresholdRule.ONLINE)


class Marking(StrEnum):
    """When a port marks a packet (ECN congestion experienced)."""

    NONE = "none"
    PORT = "port"
    """When a backlog exceeds the marking threshold K: the port's, or by the policy's `mark_by` a queue's."""
    RED = "red"
    """By chance: the probability grows linearly with the port's whole backlog from min to max, and
    is 1 above max."""
    PHANTOM = "phantom"
    """When a phantom queue, which drains more slowly than the link, exceeds its threshold."""


@dataclass(frozen=True)
class Scheme:
    """A scheme as data. No code outside these values depends on the scheme."""

    name: str
    title: str
    paper: str
    control: Control
    """The congestion control that hosts use."""
    threshold_rule: ThresholdRule
    queue_rule: QueueRule
    marking: Marking
    queues: int
    """Default number of queues."""
    thresholds_bytes: tuple[int, ...]
    """Default demotion thresholds, static or initial; their number is queue_rule.demotions(queues)."""
    colour: str
    """Hex colour of the scheme in every plot and page."""
    marks_bytes: tuple[int, ...] = (65 * PACKET_BYTES,)
    """Default marking thresholds: K, or min and max of a ramp, or the phantom queue's. Empty
    without marking."""
    mark_by: MarkBy = MarkBy.PORT
    """By default, the backlog that marks a packet."""
    grows: bool = False
    """By default, a window without marks grows by a part of the marking threshold; otherwise by one packet."""
    tags_deadlines: bool = False
    """Whether deadline flows carry their urgency in the tag instead of their bytes."""
    urgent_after_bytes: int = 0
    """By default, how much a deadline flow sends before its tag carries the urgency."""
    forgets_late: bool = False
    """Whether a flow past its deadline continues as one without a deadline; otherwise it stays the most urgent."""
    tags_sizes: bool = False
    """Whether flows of known size carry their size class in the tag."""
    flow_queues: bool = False
    """Whether, by default, each flow has a queue of its own inside its priority."""
    least_share: float = 0.0
    """Default share of the link that every queue below the first keeps; 0: strict priorities."""
    urgent_first: bool = False
    """Default of what a full port drops. False: what arrives, as at the switches of the papers."""
    min_flows: int = 5
    """By default, a port adjusts its thresholds if at least this many flows completed in the window."""
    about: str = ""
    """What it is, and what differs from its paper, in sentences. The first one says the most important."""

    @property
    def needs(self) -> frozenset[Need]:
        """The capabilities that every policy of this scheme needs from a fabric."""
        asked = (self.control.needs, self.queue_rule.needs)
        return frozenset(need for need in asked if need is not None)

    @property
    def congestion_control(self) -> str:
        """TCP_CONGESTION name that agents select, and that records and settings contain."""
        return self.control.kernel_name

    @property
    def simulator_only(self) -> bool:
        """Whether ordinary switches cannot carry out this scheme, with any values of the policy's fields."""
        return bool(self.needs)
