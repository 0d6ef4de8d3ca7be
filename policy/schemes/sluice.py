# SPDX-License-Identifier: Apache-2.0
"""Sluice: Aemon's hosts and pairs of queues, FISH's flow queues, and thresholds that each port computes itself.

The rule for the thresholds is this project's own (policy/online_thresholds.py). It needs no
percentile and no known distribution. The combination of the three is new, too. Every queue below
the first keeps 1 % of the link, so that no queue starves.
"""

from __future__ import annotations

from policy import controls
from policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule

SLUICE = Scheme(
    name="sluice",
    title="Sluice",
    paper="this project; after Wang, Xu, Liu, APNet 2017, and Zhang, Hu (FISH)",
    control=controls.UCP,
    threshold_rule=ThresholdRule.ONLINE,
    queue_rule=QueueRule.TWO_LEVEL,
    marking=Marking.PORT,
    queues=8,
    # Initial thresholds: a factor of ten for each level.
    thresholds_bytes=(10_000, 100_000, 1_000_000),
    colour="#cc3311",
    tags_deadlines=True,
    # A deadline flow starts as a short flow, because serving a short one first costs the others
    # little.
    urgent_after_bytes=1_000_000,
    flow_queues=True,
    least_share=0.01,
    urgent_first=True,
    min_flows=20,
)
