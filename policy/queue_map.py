# SPDX-License-Identifier: Apache-2.0
"""Tag to queue: what the map table of a port holds, and how it differs from what is installed.

| rule           | bytes sent              | urgency                  | known size         | background |
|----------------|-------------------------|--------------------------|--------------------|------------|
| single         | 0                       | 0                        | 0                  | 0          |
| shortest-first | 0                       | 0                        | 0                  | 0          |
| by-size        | last                    | last                     | by class           | last       |
| mlfq           | thresholds passed       | 0: as if it had just begun | 0                | last       |
| sieve          | 1 + thresholds passed; 1st packet 0 | 0          | 1 + those below it | last       |
| two-level      | 2 × thresholds passed   | 2 × level + 1            | 0                  | last       |

Untagged traffic goes where the policy says. A scheme's hosts write into the tags what its rule reads (`tags_deadlines`,
`tags_sizes`), so the columns of the others matter for foreign or left-over packets only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from policy import tags
from policy.desired import Policy
from policy.schemes import QueueRule

QueueMap = tuple[int, ...]
"""Queue of each tag, length tags.TAG_COUNT; index 0 is the untagged traffic."""


def queue_map(policy: Policy, thresholds_bytes: Sequence[int]) -> QueueMap:
    """The queue of each tag at a port with these thresholds."""
    rule = _RULES.get(policy.definition.queue_rule)
    if rule is None:
        return (0,) * tags.TAG_COUNT
    return rule(thresholds_bytes, queues=policy.queues, untagged_queue=policy.untagged_queue)


def mlfq_map(thresholds_bytes: Sequence[int], *, queues: int, untagged_queue: int) -> QueueMap:
    """Multi-level feedback: a flow is in queue i while it has sent at most threshold i.

    Thresholds become edges (`tags.snap_to_edge`). A scheme that ignores deadlines and sizes treats flows that carry
    them as it treats a flow that has just begun; background traffic takes the last queue.
    """
    levels = [min(level, queues - 1) for level in demotion_levels(thresholds_bytes)]
    return _map(queues, untagged_queue, attained=levels)


def two_level_map(thresholds_bytes: Sequence[int], *, queues: int, untagged_queue: int) -> QueueMap:
    """Two-level priority scheduling (2LPS; Wang, Xu, Liu, APNet 2017, slides 28–43): K levels, two queues each.

    Level 1: a flow without a deadline demotes by bytes sent; one with a deadline promotes by urgency. Level 2: of the
    two queues of a level, that of the flows without deadlines goes strictly first. Prio 2i+1 and 2i+2 of the slides,
    which count from 1, are queues 2i and 2i+1.
    """
    last = queues // 2 - 1
    levels = [min(level, last) for level in demotion_levels(thresholds_bytes)]
    urgent = [2 * level + 1 for level in urgency_levels(queues // 2)]
    return _map(queues, untagged_queue, attained=[2 * level for level in levels], urgency=urgent)


def sieve_map(thresholds_bytes: Sequence[int], *, queues: int, untagged_queue: int) -> QueueMap:
    """Karuna's sieve (Chen et al., SIGCOMM 2016, section 3): deadline flows, type 1, have queue 0 for themselves.

    Below, flows of unknown size, type 3, demote by bytes sent. A flow of known size, type 2, is from first to last in
    the queue in which the largest flow of its class would end; those of the open class in the last. What has the first
    tag, the first packet of a flow, goes with the deadline flows: so do the ACKs, which carry it, and which a sender
    would take for lost if they waited behind a deadline flow that fills the link.
    """
    levels = [min(1 + level, queues - 1) for level in demotion_levels(thresholds_bytes)]
    levels[0] = 0
    edges = [tags.snap_to_edge(threshold) for threshold in thresholds_bytes]
    known = [min(1 + bisect_left(edges, size), queues - 1) for size in tags.KNOWN_SIZE_EDGES_BYTES]
    return _map(queues, untagged_queue, attained=levels, known=[*known, queues - 1])


def by_size_map(thresholds_bytes: Sequence[int], *, queues: int, untagged_queue: int) -> QueueMap:
    """A fixed queue for each class of known sizes, the smallest first. Whoever does not say his is in the last."""
    last = queues - 1
    classes = range(tags.KNOWN_SIZE_LAST - tags.KNOWN_SIZE_FIRST + 1)
    return _map(
        queues,
        untagged_queue,
        attained=[last] * tags.ATTAINED_BUCKETS,
        urgency=[last] * tags.URGENCY_STEPS,
        known=[min(size_class, last) for size_class in classes],
    )


def demotion_levels(thresholds_bytes: Sequence[int]) -> list[int]:
    """For each attained-service bucket, how many thresholds lie below it: its level, 0 first."""
    edges = [tags.snap_to_edge(threshold) for threshold in thresholds_bytes]
    return [bisect_left(edges, edge) for edge in tags.EDGES_BYTES]


def urgency_levels(levels: int) -> list[int]:
    """For each step of urgency its level, 0 for the most urgent; the 16 steps are shared out evenly.

    The slides leave open which urgency promotes. The steps are half-octaves around s = 1, so that with an even number
    of levels s = 1 (half of the time to the deadline is over) parts the urgent half of the levels from the other. Four
    levels change at s = 1/4, 1, 4: when 20, 50 and 80 % of the time are over.
    """
    return [levels - 1 - step * levels // tags.URGENCY_STEPS for step in range(tags.URGENCY_STEPS)]


def queue_of_level(policy: Policy, level: int) -> int:
    """The queue of flows without deadline and of unknown size at a level of demotion."""
    match policy.definition.queue_rule:
        case QueueRule.SIEVE:
            return level + 1
        case QueueRule.TWO_LEVEL:
            return 2 * level
        case _:
            return level


def _map(
    queues: int,
    untagged_queue: int,
    *,
    attained: Sequence[int],
    urgency: Sequence[int] = (0,) * tags.URGENCY_STEPS,
    known: Sequence[int] = (0,) * (tags.KNOWN_SIZE_LAST - tags.KNOWN_SIZE_FIRST + 1),
) -> QueueMap:
    """The tags in their order: untagged, bytes sent, urgency, known size, background."""
    return (untagged_queue, *attained, *urgency, *known, queues - 1)


_RULES: Mapping[QueueRule, Callable[..., QueueMap]] = {
    QueueRule.MLFQ: mlfq_map,
    QueueRule.TWO_LEVEL: two_level_map,
    QueueRule.SIEVE: sieve_map,
    QueueRule.BY_SIZE: by_size_map,
}


def changed(installed: QueueMap | None, wanted: QueueMap) -> Mapping[int, int]:
    """Tag → queue of the rules to change between the installed map (None: nothing there) and the wanted one."""
    return {tag: queue for tag, queue in enumerate(wanted) if installed is None or installed[tag] != queue}
