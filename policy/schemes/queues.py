# SPDX-License-Identifier: Apache-2.0
"""Queue rules: how a port maps a tag to a queue. A rule is one complete record in `QueueRule`.

| rule           | bytes sent              | urgency                  | known size         | background |
|----------------|-------------------------|--------------------------|--------------------|------------|
| single         | 0                       | 0                        | 0                  | 0          |
| shortest-first | 0                       | 0                        | 0                  | 0          |
| by-size        | last                    | last                     | by class           | last       |
| mlfq           | thresholds passed       | 0, as a flow that begins | 0                  | last       |
| sieve          | 1 + thresholds passed; 1st packet 0 | 0          | 1 + those below it | last       |
| two-level      | 2 × thresholds passed   | 2 × level + 1            | 0                  | last       |
| merged         | thresholds passed       | 1                        | those below class  | last       |

Untagged traffic goes to the queue `untagged_queue` of the policy. Hosts write urgency and sizes only if their scheme
does (`tags_deadlines`, `tags_sizes`). In other schemes, packets with such tags are in the last queue
(policy/schema/desired.py).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from sluice.policy import tags
from sluice.policy.controls import Need

QueueMap = tuple[int, ...]
"""Queue of each tag, length tags.TAG_COUNT; index 0 is the untagged traffic."""


def single_map(thresholds_bytes: Sequence[int], *, queues: int, untagged_queue: int) -> QueueMap:
    """One queue for everything."""
    return (0,) * tags.TAG_COUNT


def mlfq_map(thresholds_bytes: Sequence[int], *, queues: int, untagged_queue: int) -> QueueMap:
    """Multi-level feedback: a flow is in queue i while it has sent at most threshold i.

    Thresholds are rounded to edges (`tags.snap_to_edge`). The rule ignores deadlines and sizes: a flow with such a tag
    is in the queue of new flows. Background traffic is in the last queue.
    """
    levels = [min(level, queues - 1) for level in demotion_levels(thresholds_bytes)]
    return _map(queues, untagged_queue, attained=levels)


def two_level_map(thresholds_bytes: Sequence[int], *, queues: int, untagged_queue: int) -> QueueMap:
    """Two-level priority scheduling (2LPS; Wang, Xu, Liu, APNet 2017, slides 28–43): K levels, two queues each.

    Level 1: bytes sent demote a flow without a deadline; urgency promotes a flow with a deadline.
    Level 2: of the two queues of a level, the port serves the queue of flows without deadlines strictly first.
    The slides count from 1: their priorities 2i+1 and 2i+2 are queues 2i and 2i+1.
    """
    last = queues // 2 - 1
    levels = [min(level, last) for level in demotion_levels(thresholds_bytes)]
    urgent = [2 * level + 1 for level in urgency_levels(queues // 2)]
    return _map(queues, untagged_queue, attained=[2 * level for level in levels], urgency=urgent)


def sieve_map(thresholds_bytes: Sequence[int], *, queues: int, untagged_queue: int) -> QueueMap:
    """Karuna's sieve (Chen et al., SIGCOMM 2016, section 3): queue 0 is for deadline flows, type 1.

    Below queue 0, bytes sent demote flows of unknown size, type 3. A flow of known size, type 2, stays in the queue in
    which the largest flow of its class would end. Flows of the open class stay in the last queue.
    The first packets of flows are in queue 0 as well, because ACKs carry the same tag. If an ACK waited behind a
    deadline flow that fills the link, its sender would take it for lost.
    """
    levels = [min(1 + level, queues - 1) for level in demotion_levels(thresholds_bytes)]
    levels[0] = 0
    edges = [tags.snap_to_edge(threshold) for threshold in thresholds_bytes]
    of_known_size = [min(1 + bisect_left(edges, size), queues - 1) for size in tags.KNOWN_SIZE_EDGES_BYTES]
    return _map(queues, untagged_queue, attained=levels, known_size=[*of_known_size, queues - 1])


def merged_map(thresholds_bytes: Sequence[int], *, queues: int, untagged_queue: int) -> QueueMap:
    """One order for all flows. Bytes sent demote; an urgent flow and one of known size have one of the same queues.

    Urgent flows share queue 1, so they cost the short flows in queue 0 nothing. If each level of urgency had a queue, a
    flow would wait while there is time, and more flows would be late. A flow of known size stays in the queue in which
    the smallest flow of its class would end: its class says that it ends soon.
    """
    edges = [tags.snap_to_edge(threshold) for threshold in thresholds_bytes]
    smallest = (0, *tags.KNOWN_SIZE_EDGES_BYTES)
    return _map(
        queues,
        untagged_queue,
        attained=[min(level, queues - 1) for level in demotion_levels(thresholds_bytes)],
        urgency=[min(1, queues - 1)] * tags.URGENCY_STEPS,
        known_size=[min(bisect_right(edges, size), queues - 1) for size in smallest],
    )


def by_size_map(thresholds_bytes: Sequence[int], *, queues: int, untagged_queue: int) -> QueueMap:
    """A fixed queue for each class of known sizes, the smallest first. All other flows are in the last queue."""
    last = queues - 1
    classes = range(tags.KNOWN_SIZE_LAST - tags.KNOWN_SIZE_FIRST + 1)
    return _map(
        queues,
        untagged_queue,
        attained=[last] * tags.ATTAINED_BUCKETS,
        urgency=[last] * tags.URGENCY_STEPS,
        known_size=[min(size_class, last) for size_class in classes],
    )


def by_level_map(thresholds_bytes: Sequence[int], *, queues: int, untagged_queue: int) -> QueueMap:
    """The tag is the queue: hosts and receivers choose it for each packet (Homa)."""
    return _map(
        queues, untagged_queue, attained=[min(level, queues - 1) for level in range(tags.ATTAINED_BUCKETS)]
    )


def demotion_levels(thresholds_bytes: Sequence[int]) -> list[int]:
    """For each attained-service bucket its level, 0 first: the number of thresholds below the bucket."""
    edges = [tags.snap_to_edge(threshold) for threshold in thresholds_bytes]
    return [bisect_left(edges, edge) for edge in tags.EDGES_BYTES]


def urgency_levels(levels: int) -> list[int]:
    """For each step of urgency its level, 0 for the most urgent. The levels have equal numbers of the 16 steps.

    The slides leave open which urgency promotes a flow. The steps are half-octaves around s = 1, where half of the time
    to the deadline has passed. If the number of levels is even, s = 1 separates its urgent half from the rest.
    Four levels change at s = 1/4, 1 and 4, when 20, 50 and 80 % of the time have passed.
    """
    return [levels - 1 - step * levels // tags.URGENCY_STEPS for step in range(tags.URGENCY_STEPS)]


def _map(
    queues: int,
    untagged_queue: int,
    *,
    attained: Sequence[int],
    urgency: Sequence[int] = (0,) * tags.URGENCY_STEPS,
    known_size: Sequence[int] = (0,) * (tags.KNOWN_SIZE_LAST - tags.KNOWN_SIZE_FIRST + 1),
) -> QueueMap:
    """The map from the queues of each kind of tag: untagged, bytes sent, urgency, known size, background."""
    return (untagged_queue, *attained, *urgency, *known_size, queues - 1)


class MapRule(Protocol):
    """A function that returns the queue of each tag at a port with these thresholds."""

    def __call__(self, thresholds_bytes: Sequence[int], *, queues: int, untagged_queue: int) -> QueueMap: ...


@dataclass(frozen=True)
class QueueRule:
    """A complete rule, made of pure functions. A scheme holds its rule.

    So a rule needs no other place, and may come from outside (runtime/plugins.py).
    """

    label: str
    """The rule's name in documents."""
    map: MapRule
    """The function that makes the queue map."""
    demotions: Callable[[int], int] = lambda queues: 0
    """Number of queues → number of demotion thresholds."""
    allows: Callable[[int], bool] = lambda queues: queues >= 1
    """Number of queues → whether the rule works with it."""
    queue_of_level: Callable[[int], int] = lambda level: level
    """Level of demotion → queue of flows without deadline and of unknown size at that level."""
    reads_tags: bool = True
    """The tag decides about the queue. Otherwise wrong tags gain nothing, so hosts are not checked."""
    needs: Need | None = None
    """What the rule needs from a fabric."""

    SINGLE: ClassVar[QueueRule]
    """One queue for everything."""
    SHORTEST_FIRST: ClassVar[QueueRule]
    """One queue. The port serves the flow with the fewest remaining bytes first (pFabric)."""
    BY_SIZE: ClassVar[QueueRule]
    """One queue for each class of known sizes. All other flows share the last queue."""
    BY_LEVEL: ClassVar[QueueRule]
    """The queue that the packet's tag names. Receivers grant it (Homa)."""
    MLFQ: ClassVar[QueueRule]
    """Multi-level feedback: a flow moves to queue i+1 when it has sent more than threshold i."""
    SIEVE: ClassVar[QueueRule]
    """Deadline flows in queue 0. Below it, flows of known size by size, others as in MLFQ (Karuna)."""
    TWO_LEVEL: ClassVar[QueueRule]
    """2LPS: pairs of queues. Bytes sent choose the pair as in MLFQ; for deadline flows, urgency does (Aemon)."""
    MERGED: ClassVar[QueueRule]
    """As MLFQ, with deadline flows and flows of known size among the same levels (Sluice)."""


QueueRule.SINGLE = QueueRule("single", single_map, queue_of_level=lambda level: 0, reads_tags=False)
QueueRule.SHORTEST_FIRST = replace(QueueRule.SINGLE, label="shortest-first", needs=Need.SHORTEST_FIRST)
QueueRule.BY_SIZE = QueueRule("by-size", by_size_map)
QueueRule.BY_LEVEL = QueueRule("by-level", by_level_map, allows=lambda queues: queues >= 2)
QueueRule.MLFQ = QueueRule("mlfq", mlfq_map, demotions=lambda queues: queues - 1)
QueueRule.SIEVE = QueueRule(
    "sieve",
    sieve_map,
    demotions=lambda queues: queues - 2,
    allows=lambda queues: queues >= 2,
    queue_of_level=lambda level: level + 1,
)
QueueRule.TWO_LEVEL = QueueRule(
    "two-level",
    two_level_map,
    demotions=lambda queues: queues // 2 - 1,
    allows=lambda queues: queues >= 2 and queues % 2 == 0,
    queue_of_level=lambda level: 2 * level,
)
QueueRule.MERGED = QueueRule("merged", merged_map, demotions=lambda queues: queues - 1)

QUEUE_RULES: tuple[QueueRule, ...] = (
    *(QueueRule.SINGLE, QueueRule.SHORTEST_FIRST, QueueRule.BY_SIZE, QueueRule.BY_LEVEL),
    *(QueueRule.MLFQ, QueueRule.SIEVE, QueueRule.TWO_LEVEL, QueueRule.MERGED),
)
"""The rules of this file."""
