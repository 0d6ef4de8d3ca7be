# SPDX-License-Identifier: Apache-2.0
"""Plain TCP: CUBIC into one drop-tail FIFO."""

from __future__ import annotations

from sluice.policy import controls
from sluice.policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule

TCP = Scheme(
    name="tcp",
    title="TCP",
    paper="RFC 9438 (CUBIC)",
    control=controls.CUBIC,
    threshold_rule=ThresholdRule.NONE,
    queue_rule=QueueRule.SINGLE,
    marking=Marking.NONE,
    queues=1,
    thresholds_bytes=(),
    colour="#8c8c8c",
    marks_bytes=(),
)
