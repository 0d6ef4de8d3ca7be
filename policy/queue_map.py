# SPDX-License-Identifier: Apache-2.0
"""The queue map of a port: the queue of each tag, and the difference from the installed map."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sluice.policy import tags
from sluice.policy.desired import Policy
from sluice.policy.queue_rules import QueueMap

__all__ = ["QueueMap", "changed", "host_queue_map", "queue_map"]


def queue_map(policy: Policy, thresholds_bytes: Sequence[int]) -> QueueMap:
    """The queue of each tag at a port with these thresholds.

    Tags that no host of the scheme writes are background traffic. No limit holds for urgency, so it would be a way into
    the first queue (policy/tag_limits.py).
    """
    scheme, last = policy.definition, policy.queues - 1
    found = scheme.queue_rule.map(
        thresholds_bytes, queues=policy.queues, untagged_queue=policy.untagged_queue
    )
    if not scheme.tags_deadlines:
        found = _sent_to(found, range(tags.URGENCY_FIRST, tags.URGENCY_LAST + 1), last)
    if not scheme.tags_sizes:
        found = _sent_to(found, range(tags.KNOWN_SIZE_FIRST, tags.KNOWN_SIZE_LAST + 1), last)
    if not policy.reserved_dscp:
        return found
    return _sent_to(found, set(policy.reserved_dscp), policy.reserved_queue)


def host_queue_map(policy: Policy) -> QueueMap:
    """The queue of each tag at a host's own link.

    The thresholds are those of the policy, because no controller counts what leaves a host. At ports that adapt,
    they are the values at the start. Without `host_queues`, all tags share one queue.
    """
    if not policy.host_queues:
        return (0,) * tags.TAG_COUNT
    return queue_map(policy, policy.thresholds)


def _sent_to(found: QueueMap, some: Collection[int], queue: int) -> QueueMap:
    """Return the map with another queue for some tags."""
    return tuple(queue if tag in some else before for tag, before in enumerate(found))


def changed(installed: QueueMap | None, wanted: QueueMap) -> Mapping[int, int]:
    """Tag → queue for each rule that must change. `installed` is None if no map is installed."""
    return {tag: queue for tag, queue in enumerate(wanted) if installed is None or installed[tag] != queue}
