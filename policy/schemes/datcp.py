# SPDX-License-Identifier: Apache-2.0
"""DATCP: one FIFO, marked by chance between two thresholds; the flows' precedence is in their windows."""

from __future__ import annotations

from policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule

DATCP = Scheme(
    name="datcp",
    title="DATCP",
    paper="Zhang et al., deadline-aware TCP",
    congestion_control="sluice_datcp",
    # A flow of precedence 1 adds one packet a window and halves on an echo: that is Reno, which every kernel has.
    fallback_control="reno",
    threshold_rule=ThresholdRule.NONE,
    queue_rule=QueueRule.SINGLE,
    marking=Marking.RED,
    queues=1,
    thresholds_bytes=(),
    colour="#aa3377",
    marks_bytes=(80_000, 120_000),
)
