# SPDX-License-Identifier: Apache-2.0
"""Tag to queue: what the map table of a port holds, and how it differs from what is installed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from policy import tags
from policy.desired import Policy
from policy.schemes import QueueRule

QueueMap = tuple[int, ...]
"""Queue of each tag, length tags.TAG_COUNT; index 0 is the untagged traffic."""


def queue_map(policy: Policy, thresholds_bytes: Sequence[int]) -> QueueMap:
    """The queue of each tag at a port with these thresholds."""
    if policy.definition.queue_rule is QueueRule.SINGLE:
        return (0,) * tags.TAG_COUNT
    return mlfq_map(thresholds_bytes, queues=policy.queues, untagged_queue=policy.untagged_queue)


def mlfq_map(thresholds_bytes: Sequence[int], *, queues: int, untagged_queue: int) -> QueueMap:
    """Multi-level feedback: a flow is in queue i while it has sent at most threshold i.

    Thresholds become edges (`tags.snap_to_edge`). A scheme that ignores deadlines and sizes treats flows that carry
    them as it treats a flow that has just begun; background traffic takes the last queue.
    """
    edges = [tags.snap_to_edge(threshold) for threshold in thresholds_bytes]
    queue_of = [0] * tags.TAG_COUNT
    queue_of[tags.UNTAGGED] = untagged_queue
    for k, edge in enumerate(tags.EDGES_BYTES):
        queue_of[tags.ATTAINED_FIRST + k] = min(bisect_left(edges, edge), queues - 1)
    queue_of[tags.BACKGROUND] = queues - 1
    return tuple(queue_of)


def changed(installed: QueueMap | None, wanted: QueueMap) -> Mapping[int, int]:
    """Tag → queue of the rules to change between the installed map (None: nothing there) and the wanted one."""
    return {tag: queue for tag, queue in enumerate(wanted) if installed is None or installed[tag] != queue}
