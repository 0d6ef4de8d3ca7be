# SPDX-License-Identifier: Apache-2.0
"""pFabric: every packet says how much its flow has to go, and the least goes first. The ideal when all is known."""

from __future__ import annotations

from policy import controls
from policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule

PFABRIC = Scheme(
    name="pfabric",
    title="pFabric",
    paper="Alizadeh et al., SIGCOMM 2013",
    control=controls.PFABRIC,
    threshold_rule=ThresholdRule.NONE,
    queue_rule=QueueRule.SHORTEST_FIRST,
    marking=Marking.NONE,
    queues=1,
    thresholds_bytes=(),
    colour="#ee3377",
    marks_bytes=(),
)
