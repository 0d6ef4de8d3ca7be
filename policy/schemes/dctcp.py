# SPDX-License-Identifier: Apache-2.0
"""DCTCP: one FIFO, marked when its backlog exceeds K."""

from __future__ import annotations

from sluice.policy import controls
from sluice.policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule

DCTCP = Scheme(
    name="dctcp",
    title="DCTCP",
    paper="Alizadeh et al., SIGCOMM 2010; RFC 8257",
    control=controls.DCTCP,
    threshold_rule=ThresholdRule.NONE,
    queue_rule=QueueRule.SINGLE,
    marking=Marking.PORT,
    queues=1,
    thresholds_bytes=(),
    colour="#4477aa",
)
