# SPDX-License-Identifier: Apache-2.0
"""A plugin: scheme sluice with other effects of urgency. It shows what UCP's cut gives, and what one queue gives.

The cut of a flow with a deadline depends on its urgency in three ways: not at all (DCTCP), little (D2TCP: alpha to the
power of 0.5 to 2), or much (UCP, the scheme's own: to the power of 0 to 4). Queues and tags are the same. The last
scheme has the own cut, and chooses among the queues between the first and the last by urgency.
"""

from collections.abc import Sequence
from dataclasses import replace

from sluice.plugin import SCHEMES, QueueMap, QueueRule, controls, merged_map, tags, urgency_levels

SLUICE = SCHEMES["sluice"]


def by_levels(thresholds_bytes: Sequence[int], *, queues: int, untagged_queue: int) -> QueueMap:
    """The most urgent flows are in queue 1, and the least urgent ones in queue L - 2."""
    queue_of = list(merged_map(thresholds_bytes, queues=queues, untagged_queue=untagged_queue))
    urgent = [min(1 + level, queues - 1) for level in urgency_levels(max(queues - 2, 1))]
    queue_of[tags.URGENCY_FIRST : tags.URGENCY_LAST + 1] = urgent
    return tuple(queue_of)


AS_DCTCP = replace(SLUICE, name="sluice-dctcp", title="Sluice, cut as DCTCP", control=controls.DCTCP)
AS_D2TCP = replace(SLUICE, name="sluice-d2tcp", title="Sluice, cut as D2TCP", control=controls.D2TCP)
IN_LEVELS = replace(
    SLUICE,
    name="sluice-levels",
    title="Sluice, queues by urgency",
    queue_rule=replace(QueueRule.MERGED, label="merged-levels", map=by_levels),
)
