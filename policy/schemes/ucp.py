# SPDX-License-Identifier: Apache-2.0
"""UCP alone: Aemon's congestion control on the ports of DCTCP, without its scheduling."""

from __future__ import annotations

from sluice.policy import controls
from sluice.policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule

UCP = Scheme(
    name="ucp",
    title="UCP",
    paper="Wang, Xu, Liu, APNet 2017",
    control=controls.UCP,
    threshold_rule=ThresholdRule.NONE,
    queue_rule=QueueRule.SINGLE,
    marking=Marking.PORT,
    queues=1,
    thresholds_bytes=(),
    colour="#999933",
)
