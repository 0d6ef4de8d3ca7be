# SPDX-License-Identifier: Apache-2.0
"""Few traffic classes for a switch that cannot map each tag to a queue of its own choice at each port.

A commodity switch has one map from DSCP to at most eight traffic classes, which all ports share. Each egress port maps
the classes to its queues. So the edges between the classes are fixed for the whole switch, and a port's thresholds can
only be such edges.

The planner chooses the edges for some kinds of traffic at once. It minimises the sum of mean slowdowns, each divided by
the least one that 40 edges allow (policy/thresholds/online.py). It adds the best edge one by one, then exchanges
single edges while that helps. The result is a local optimum. It is the global one if all ports together need no more
thresholds than there are edges.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import numpy as np

from sluice.policy import tags
from sluice.policy.errors import FieldError
from sluice.policy.schema.desired import Policy, QueueMap, queue_map
from sluice.policy.thresholds.online import DelayModel, DelayTerms, delay_terms
from sluice.policy.thresholds.port_traffic import BUCKETS

MOST_CLASSES = 8
"""Traffic classes of a SONiC switch."""
URGENCY_CLASSES = 2
"""Classes for urgency at most. The 16 steps of urgency share them."""

Signature = tuple[int, ...]
"""Queues of a tag under every choice of thresholds."""


@dataclass(frozen=True)
class ClassPlan:
    """The traffic class of each tag, and the edges that a port's thresholds can have."""

    policy: Policy
    class_of_tag: tuple[int, ...]
    """Class of each tag, length tags.TAG_COUNT."""
    edges_bytes: tuple[int, ...]
    """Edges between classes of attained service, increasing."""

    @property
    def classes(self) -> int:
        """The number of classes."""
        return max(self.class_of_tag) + 1

    def snapped(self, thresholds_bytes: Sequence[float]) -> tuple[int, ...]:
        """The thresholds that a port can have: for each one the nearest edge on a logarithmic scale."""
        if not self.edges_bytes:
            return ()
        logs = np.log(self.edges_bytes)
        nearest = [int(np.abs(logs - np.log(threshold)).argmin()) for threshold in thresholds_bytes]
        return tuple(self.edges_bytes[index] for index in nearest)

    def queue_of_class(self, thresholds_bytes: Sequence[int]) -> tuple[int, ...]:
        """The queue of each class at a port with these thresholds, which are edges of the plan."""
        queues = coarse_map(self.policy, thresholds_bytes)
        first_tag = {size_class: tag for tag, size_class in reversed([*enumerate(self.class_of_tag)])}
        return tuple(queues[first_tag[size_class]] for size_class in range(self.classes))


def class_plan(policy: Policy, models: Sequence[DelayModel], most: int = MOST_CLASSES) -> ClassPlan:
    """Plan at most `most` classes for a policy and some kinds of traffic, each with a port's model.

    A scheme with fixed thresholds takes those as edges, and `models` may be empty. Raises FieldError if the policy
    needs more classes.
    """
    adapts = policy.definition.threshold_rule.adapts
    terms = _terms(models, len(policy.thresholds) + 1) if adapts else []
    for attained in range(most, 0, -1):
        if adapts:
            edges = tuple(tags.EDGES_BYTES[index] for index in _planned(terms, attained - 1))
        else:
            edges = tuple(dict.fromkeys(tags.snap_to_edge(threshold) for threshold in policy.thresholds))
        class_of_tag = _grouped(policy, edges)
        if max(class_of_tag) < most:
            return ClassPlan(policy, class_of_tag, edges)
    raise FieldError("scheme", f"{policy.scheme!r} needs more than {most} traffic classes")


def lost(plan: ClassPlan, models: Sequence[DelayModel]) -> tuple[float, ...]:
    """Return by which part each kind of traffic has a larger mean slowdown than with 40 edges."""
    levels = len(plan.policy.thresholds) + 1
    return tuple(cost - 1 for cost in _costs(_terms(models, levels), _indices(plan.edges_bytes)))


def best_of_plan(plan: ClassPlan, model: DelayModel) -> tuple[int, ...]:
    """Return the best thresholds for this traffic among the edges of the plan."""
    terms = delay_terms(model, len(plan.policy.thresholds) + 1)
    best, _ = terms.best(_indices(plan.edges_bytes))
    return tuple(tags.EDGES_BYTES[index] for index in best[0])


def coarse_map(policy: Policy, thresholds_bytes: Sequence[int]) -> QueueMap:
    """The queue map with fewer queues for urgency: each half of the steps has the queue of its most urgent one."""
    queue_of = list(queue_map(policy, thresholds_bytes))
    width = tags.URGENCY_STEPS // URGENCY_CLASSES
    for first in range(tags.URGENCY_FIRST, tags.URGENCY_LAST + 1, width):
        queue_of[first : first + width] = [queue_of[first + width - 1]] * width
    return tuple(queue_of)


def _planned(terms: Sequence[tuple[DelayTerms, float]], count: int) -> list[int]:
    chosen: list[int] = []
    for _ in range(count):
        chosen = _improved(terms, chosen, [*chosen, -1], len(chosen))
    changed = True
    while changed:
        before = list(chosen)
        for place in range(len(chosen)):
            chosen = _improved(terms, chosen, chosen, place)
        changed = chosen != before
    return sorted(chosen)


def _improved(
    terms: Sequence[tuple[DelayTerms, float]], present: list[int], template: list[int], place: int
) -> list[int]:
    """Return the edges with the best one at a place of the template, or the present ones if none is better."""
    least = sum(_costs(terms, present))
    best = present if len(present) == len(template) else None
    for edge in range(BUCKETS - 1):
        if edge in template:
            continue
        candidate = [*template[:place], edge, *template[place + 1 :]]
        cost = sum(_costs(terms, candidate))
        if best is None or cost < least:
            best, least = candidate, cost
    assert best is not None
    return best


def _terms(models: Sequence[DelayModel], levels: int) -> list[tuple[DelayTerms, float]]:
    """The terms of each kind of traffic, and its least cost with all edges."""
    all_terms = [delay_terms(replace(model, above=np.zeros((1, levels))), levels) for model in models]
    return [(terms, float(terms.best()[1][0])) for terms in all_terms]


def _costs(terms: Sequence[tuple[DelayTerms, float]], edges: Sequence[int]) -> list[float]:
    return [float(delay.best(edges)[1][0]) / least for delay, least in terms]


def _indices(edges_bytes: Sequence[int]) -> list[int]:
    return [tags.edge_index(edge) for edge in edges_bytes]


def _grouped(policy: Policy, edges_bytes: Sequence[int]) -> tuple[int, ...]:
    """Give tags the same class if they have the same queue under every choice of thresholds."""
    choices = (
        combinations_with_replacement(edges_bytes, len(policy.thresholds))
        if policy.definition.threshold_rule.adapts and edges_bytes
        else [policy.thresholds]
    )
    maps = [coarse_map(policy, thresholds) for thresholds in choices]
    signatures: list[Signature] = [tuple(queue_of[tag] for queue_of in maps) for tag in range(tags.TAG_COUNT)]
    by_service = [*range(tags.ATTAINED_FIRST, tags.TAG_COUNT), tags.UNTAGGED]
    order = list(dict.fromkeys(signatures[tag] for tag in by_service))
    return tuple(order.index(signature) for signature in signatures)
