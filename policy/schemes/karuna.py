# SPDX-License-Identifier: Apache-2.0
"""Karuna: deadline flows have the first queue and take only the rate that they need; other flows go by size.

A flow of known size has the queue in which it would end if its size were unknown. The tag has four
size classes, and all flows of a class share the queue of its largest. Karuna's aging of flows that
time out is left out.
"""

from __future__ import annotations

from sluice.policy import controls
from sluice.policy.schemes.pias import PIAS
from sluice.policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule

KARUNA = Scheme(
    name="karuna",
    title="Karuna",
    paper="Chen, Chen, Bai, Alizadeh, SIGCOMM 2016",
    # A flow without a deadline runs as under DCTCP.
    control=controls.MCP,
    threshold_rule=ThresholdRule.STATIC,
    queue_rule=QueueRule.SIEVE,
    marking=Marking.PORT,
    queues=8,
    # One queue fewer than PIAS has.
    thresholds_bytes=PIAS.thresholds_bytes[:-1],
    colour="#ee7733",
    tags_deadlines=True,
    tags_sizes=True,
)
