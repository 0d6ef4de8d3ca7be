# SPDX-License-Identifier: Apache-2.0
"""D2TCP: DCTCP's ports. Flows with a close deadline reduce their windows less on marks."""

from __future__ import annotations

from sluice.policy import controls
from sluice.policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule

D2TCP = Scheme(
    name="d2tcp",
    title="D²TCP",
    paper="Vamanan et al., SIGCOMM 2012",
    control=controls.D2TCP,
    threshold_rule=ThresholdRule.NONE,
    queue_rule=QueueRule.SINGLE,
    marking=Marking.PORT,
    queues=1,
    thresholds_bytes=(),
    colour="#66ccee",
)
