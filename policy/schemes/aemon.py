# SPDX-License-Identifier: Apache-2.0
"""Aemon: UCP at the hosts, two-level priority scheduling (2LPS) at the ports. No flow's size is known."""

from __future__ import annotations

from sluice.policy import controls
from sluice.policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule
from sluice.policy.schemes.two_level import THRESHOLDS_BYTES

AEMON = Scheme(
    name="aemon",
    title="Aemon",
    paper="Wang, Xu, Liu, APNet 2017",
    control=controls.UCP,
    threshold_rule=ThresholdRule.STATIC,
    queue_rule=QueueRule.TWO_LEVEL,
    marking=Marking.PORT,
    queues=8,
    thresholds_bytes=THRESHOLDS_BYTES,
    colour="#aa4499",
    tags_deadlines=True,
)
