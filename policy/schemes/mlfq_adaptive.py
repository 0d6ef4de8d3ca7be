# SPDX-License-Identifier: Apache-2.0
"""Adaptive MLFQ: every port sets its thresholds from percentiles of the flow sizes that completed there."""

from __future__ import annotations

from sluice.policy import controls
from sluice.policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule

MLFQ_ADAPTIVE = Scheme(
    name="mlfq-adaptive",
    title="Adaptive MLFQ",
    paper="Gutiérrez, Barcellos, Branch, DYNA 85(206), 2018",
    control=controls.DCTCP,
    threshold_rule=ThresholdRule.PERCENTILE,
    queue_rule=QueueRule.MLFQ,
    marking=Marking.PORT,
    queues=2,
    thresholds_bytes=(100_000,),
    colour="#228833",
    urgent_first=True,
)
