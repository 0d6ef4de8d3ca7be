# SPDX-License-Identifier: Apache-2.0
"""What a policy may need from a fabric in addition to eight strict priorities and marking.

`policy/fabrics.py` says what each fabric offers.
"""

from __future__ import annotations

from enum import StrEnum


class Need(StrEnum):
    """One need. Its value is the wording in a refusal."""

    FLOW_QUEUES = "flow queues"
    SHARES = "bandwidth shares"
    RESERVED_DSCP = "reserved DSCPs"
    CORE_MARKING = "a separate marking threshold for core links"
    SHORTEST_FIRST = "queues that serve the shortest remaining flow first"
    EXPLICIT_RATES = "explicit rates from the switches"
