# SPDX-License-Identifier: Apache-2.0
"""FISH: PIAS's priorities, with a queue for each flow inside them, and a share of the link for each.

The paper shares the link among the priorities so that no flow starves, and gives no numbers. Here
every priority below the first keeps 2 %, which is 14 % in all. Small flows then take as long as
under strict priorities.
"""

from __future__ import annotations

from sluice.policy import controls
from sluice.policy.schemes.pias import PIAS
from sluice.policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule

FISH = Scheme(
    name="fish",
    title="FISH",
    paper="Zhang, Hu, flow scheduling policy for burst traffic; Hu et al., INFOCOM 2007 (DQS)",
    control=controls.DCTCP,
    threshold_rule=ThresholdRule.STATIC,
    queue_rule=QueueRule.MLFQ,
    marking=Marking.PORT,
    queues=8,
    thresholds_bytes=PIAS.thresholds_bytes,
    colour="#44aa99",
    flow_queues=True,
    least_share=0.02,
)
