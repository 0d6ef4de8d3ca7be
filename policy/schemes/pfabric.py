# SPDX-License-Identifier: Apache-2.0
"""pFabric: every packet carries its flow's remaining bytes, and the fewest go first. The ideal if
all sizes are known."""

from __future__ import annotations

from sluice.policy import controls
from sluice.policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule

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
