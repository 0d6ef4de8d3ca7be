# SPDX-License-Identifier: Apache-2.0
"""Sluice: Aemon's hosts and pairs of queues, FISH's flow queues, and thresholds that each port finds for itself.

Ours is the thresholds' rule (policy/online_thresholds.py: no percentile to choose, no distribution to know) and that
the three go together. Every queue below the first keeps 1 % of the link, so that none starves.
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
    # Where it starts: a decade a level.
    thresholds_bytes=(10_000, 100_000, 1_000_000),
    colour="#cc3311",
    tags_deadlines=True,
    # A deadline flow that may turn out to be short is served as one: it costs the others little to have it done.
    urgent_after_bytes=1_000_000,
    flow_queues=True,
    least_share=0.01,
    min_flows=20,
)
