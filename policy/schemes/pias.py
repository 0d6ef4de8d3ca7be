# SPDX-License-Identifier: Apache-2.0
"""PIAS: multi-level feedback queues with fixed demotion thresholds, the same at every port."""

from __future__ import annotations

from sluice.policy import controls
from sluice.policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule

PIAS = Scheme(
    name="pias",
    title="PIAS",
    paper="Bai et al., NSDI 2015",
    control=controls.DCTCP,
    threshold_rule=ThresholdRule.STATIC,
    queue_rule=QueueRule.MLFQ,
    marking=Marking.PORT,
    queues=8,
    # Web search at load 0.8 from the authors' ns-2 scripts, in packets of 1460 B.
    thresholds_bytes=tuple(packets * 1460 for packets in (909, 1329, 1648, 1960, 2143, 2337, 2484)),
    colour="#ccbb44",
)
