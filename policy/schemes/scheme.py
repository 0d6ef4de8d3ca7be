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


class QueueRule(StrEnum):
    """How a tag becomes a queue."""

    SINGLE = "single"
    MLFQ = "mlfq"
    """Multi-level feedback: queue i+1 once the flow has sent more than threshold i."""


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
    """Static or initial demotion thresholds by default; length queues - 1."""
    colour: str
    """Hex colour of the scheme in every plot and page."""
    marks_bytes: tuple[int, ...] = (65 * PACKET_BYTES,)
    """Default thresholds of the marking: K; min and max of a ramp; the phantom queue's; none without marking."""
    tags_deadlines: bool = False
    """Deadline flows carry their urgency in the tag instead of their bytes."""
    tags_sizes: bool = False
    """Flows of known size carry their size class in the tag."""
