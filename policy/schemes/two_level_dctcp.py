# SPDX-License-Identifier: Apache-2.0
"""Aemon's scheduling without its congestion control."""

from __future__ import annotations

from sluice.policy import controls
from sluice.policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule
from sluice.policy.schemes.two_level import THRESHOLDS_BYTES

TWO_LEVEL_DCTCP = Scheme(
    name="2lps+dctcp",
    title="2LPS + DCTCP",
    paper="Wang, Xu, Liu, APNet 2017 (ablation)",
    control=controls.DCTCP,
    threshold_rule=ThresholdRule.STATIC,
    queue_rule=QueueRule.TWO_LEVEL,
    marking=Marking.PORT,
    queues=8,
    thresholds_bytes=THRESHOLDS_BYTES,
    colour="#ffaabb",
    tags_deadlines=True,
)
