# SPDX-License-Identifier: Apache-2.0
"""TCP with priorities: CUBIC, and a fixed priority for each class of flows, by the size that the
program declares.

This is usual service differentiation: a flow keeps its class from its first byte to its last. A
flow that declares nothing has the lowest class. Here the switches apply the priority. Priority at
the hosts, which gives "a share in proportion" (Zhang et al., Fig. 12), is scheme `datcp` with
`importance_share = 1`.
"""

from __future__ import annotations

from sluice.policy import controls
from sluice.policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule

TCP_PRIORITY = Scheme(
    name="tcp-priority",
    title="TCP, priority by class",
    paper="RFC 9438 (CUBIC); IEEE 802.1Q priorities",
    control=controls.CUBIC,
    threshold_rule=ThresholdRule.NONE,
    queue_rule=QueueRule.BY_SIZE,
    marking=Marking.NONE,
    queues=4,
    thresholds_bytes=(),
    colour="#bbbbbb",
    marks_bytes=(),
    tags_sizes=True,
)
