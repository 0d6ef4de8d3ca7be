# SPDX-License-Identifier: Apache-2.0
"""HULL: DCTCP with phantom queues, which mark before a real queue builds up. It lacks HULL's
hardware pacer in the hosts."""

from __future__ import annotations

from sluice.policy import controls
from sluice.policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule
from sluice.policy.units import PACKET_BYTES

HULL = Scheme(
    name="hull",
    title="HULL, without pacers",
    paper="Alizadeh et al., NSDI 2012",
    control=controls.DCTCP,
    threshold_rule=ThresholdRule.NONE,
    queue_rule=QueueRule.SINGLE,
    marking=Marking.PHANTOM,
    queues=1,
    thresholds_bytes=(),
    colour="#ee6677",
    marks_bytes=(4 * PACKET_BYTES,),  # chosen here: a window of a few packets must pass unmarked
)
