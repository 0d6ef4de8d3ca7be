# SPDX-License-Identifier: Apache-2.0
"""Aemon's congestion control with PIAS's priorities: only hosts know the deadlines."""

from __future__ import annotations

from sluice.policy import controls
from sluice.policy.schemes.pias import PIAS
from sluice.policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule

PIAS_UCP = Scheme(
    name="pias+ucp",
    title="PIAS + UCP",
    paper="Wang, Xu, Liu, APNet 2017 (ablation)",
    control=controls.UCP,
    threshold_rule=ThresholdRule.STATIC,
    queue_rule=QueueRule.MLFQ,
    marking=Marking.PORT,
    queues=8,
    thresholds_bytes=PIAS.thresholds_bytes,
    colour="#0077bb",
)
