# SPDX-License-Identifier: Apache-2.0
"""DATCP: one FIFO that marks by chance between two thresholds. A flow's window depends on its precedence."""

from __future__ import annotations

from sluice.policy import controls
from sluice.policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule

DATCP = Scheme(
    name="datcp",
    title="DATCP",
    paper="Zhang et al., deadline-aware TCP",
    control=controls.DATCP,
    threshold_rule=ThresholdRule.NONE,
    queue_rule=QueueRule.SINGLE,
    marking=Marking.RED,
    queues=1,
    thresholds_bytes=(),
    colour="#aa3377",
    marks_bytes=(80_000, 120_000),
)
