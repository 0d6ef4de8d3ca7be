# SPDX-License-Identifier: Apache-2.0
"""Sluice: queues by attained service that mark by their own backlog, and windows that regain the link quickly.

A flow is marked only because of flows at its own level. So it keeps its window while others are served first, and it
uses the link at once when its turn comes. Deadlines and declared sizes choose a queue among the same levels. Each port
computes its thresholds itself (policy/thresholds/online.py). docs/explanation/sluice.md explains each choice.
"""

from __future__ import annotations

from sluice.policy import controls
from sluice.policy.schemes.ports import MarkBy
from sluice.policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule

SLUICE = Scheme(
    name="sluice",
    title="Sluice",
    paper="this project; after Bai et al., NSDI 2015 (PIAS), and Wang, Xu, Liu, APNet 2017 (Aemon)",
    control=controls.UCP,
    threshold_rule=ThresholdRule.ONLINE,
    queue_rule=QueueRule.MERGED,
    marking=Marking.PORT,
    queues=6,
    # Initial thresholds: good ones for web search at 10 Gb/s (docs/explanation/sluice.md).
    thresholds_bytes=(100_000, 240_000, 750_000, 1_800_000, 10_000_000),
    colour="#cc3311",
    mark_by=MarkBy.QUEUE,
    grows=True,
    tags_deadlines=True,
    # A deadline flow starts as any other flow, because serving a short one first costs the others
    # little.
    urgent_after_bytes=10_000_000,
    # A late flow helps no one by delaying others.
    forgets_late=True,
    tags_sizes=True,
    urgent_first=True,
    min_flows=20,
)
