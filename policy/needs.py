# SPDX-License-Identifier: Apache-2.0
"""What a policy can ask of a fabric beyond eight strict priorities that mark (policy/fabrics.py: who has what)."""

from __future__ import annotations

from enum import StrEnum


class Need(StrEnum):
    """In words, for the refusal."""

    FLOW_QUEUES = "flow queues"
    SHARES = "bandwidth shares"
    CORE_MARKING = "a separate marking threshold for core links"
    SHORTEST_FIRST = "queues that serve the shortest remaining flow first"
    EXPLICIT_RATES = "explicit rates from the switches"
