# SPDX-License-Identifier: Apache-2.0
"""The queue map of a port: the queue of each tag, and the difference from the installed map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from policy.desired import Policy
from policy.queue_rules import QueueMap

__all__ = ["QueueMap", "changed", "queue_map"]


def queue_map(policy: Policy, thresholds_bytes: Sequence[int]) -> QueueMap:
    """The queue of each tag at a port with these thresholds."""
    rule = policy.definition.queue_rule
    found = rule.map(thresholds_bytes, queues=policy.queues, untagged_queue=policy.untagged_queue)
    if not policy.reserved_dscp:
        return found
    kept = set(policy.reserved_dscp)
    return tuple(policy.reserved_queue if tag in kept else queue for tag, queue in enumerate(found))


def changed(installed: QueueMap | None, wanted: QueueMap) -> Mapping[int, int]:
    """Tag → queue for each rule that must change. `installed` is None if no map is installed."""
    return {tag: queue for tag, queue in enumerate(wanted) if installed is None or installed[tag] != queue}
