# SPDX-License-Identifier: Apache-2.0
"""What a scheme is made of: a congestion control for the hosts; thresholds, queues and marking for the ports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from policy.units import PACKET_BYTES


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


class QueueRule(StrEnum):
    """How a tag becomes a queue (policy/queue_map.py)."""

    SINGLE = "single"
    SHORTEST_FIRST = "shortest-first"
    """One queue, out of which the flow with the fewest bytes to go is served (pFabric)."""
    BY_SIZE = "by-size"
    """A queue for each class of known sizes; flows of unknown size share the last."""
    MLFQ = "mlfq"
    """Multi-level feedback: queue i+1 once the flow has sent more than threshold i."""
    SIEVE = "sieve"
    """Deadline flows in queue 0; below, known sizes by their size, and unknown ones as MLFQ (Karuna)."""
    TWO_LEVEL = "two-level"
    """2LPS: pairs of queues; the first of a pair as MLFQ, the second by the urgency of deadline flows (Aemon)."""

    def demotions(self, queues: int) -> int:
        """How many demotion thresholds so many queues have."""
        match self:
            case QueueRule.MLFQ:
                return queues - 1
            case QueueRule.SIEVE:
                return queues - 2
            case QueueRule.TWO_LEVEL:
                return queues // 2 - 1
            case _:
                return 0

    def allows(self, queues: int) -> bool:
        """Whether the rule can be carried out with so many queues."""
        match self:
            case QueueRule.SIEVE:
                return queues >= 2
            case QueueRule.TWO_LEVEL:
                return queues >= 2 and queues % 2 == 0
            case _:
                return queues >= 1


class Marking(StrEnum):
    """When a port sets ECN congestion experienced."""

    NONE = "none"
    PORT = "port"
    """When the port's whole backlog exceeds the marking threshold K."""
    RED = "red"
    """By chance, which grows linearly with the port's whole backlog from min to max; always above max."""
    PHANTOM = "phantom"
    """When a phantom queue, which drains more slowly than the link, exceeds its threshold."""


class Need(StrEnum):
    """What a policy asks of a fabric beyond eight strict priorities that mark: in words, for the refusal."""

    FLOW_QUEUES = "flow queues"
    SHARES = "bandwidth shares"
    CORE_MARKING = "a marking threshold of their own for core links"
    SHORTEST_FIRST = "queues that serve the shortest remaining flow first"
    EXPLICIT_RATES = "explicit rates from the switches"


@dataclass(frozen=True)
class Scheme:
    """A composition; nothing scheme-specific exists outside these values."""

    name: str
    title: str
    paper: str
    congestion_control: str
    """TCP_CONGESTION name that the agents select."""
    fallback_control: str
    """The kernel's own control that the agents use, and say so, where struct_ops is missing."""
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
    needs: frozenset[Need] = frozenset()
    """What a fabric must be able to do whatever the policy's fields say."""

    @property
    def simulator_only(self) -> bool:
        """No field of a policy makes this scheme possible on switches as they are."""
        return bool(self.needs)
