# SPDX-License-Identifier: Apache-2.0
"""D³: a deadline flow asks the switches for the rate that it needs, and sends at the rate that they grant."""

from __future__ import annotations

from sluice.policy import controls
from sluice.policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule

D3 = Scheme(
    name="d3",
    title="D³",
    paper="Wilson et al., SIGCOMM 2011",
    control=controls.D3,
    threshold_rule=ThresholdRule.NONE,
    queue_rule=QueueRule.SINGLE,
    marking=Marking.NONE,
    queues=1,
    thresholds_bytes=(),
    colour="#99ddff",
    marks_bytes=(),
)
