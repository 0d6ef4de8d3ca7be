# SPDX-License-Identifier: Apache-2.0
"""The parts of policy fields that depend on the scheme: where a field applies, its kind and its default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sluice.policy.errors import FieldError
from sluice.policy.field_entry import MAX_QUEUES, Applies, Draft, Of
from sluice.policy.kinds import Kind, ListOf, Number, OneOfWhole, Schema, Size, Whole
from sluice.policy.marking import (
    DEFAULT_BUFFER_BYTES,
    LEAST_MARKS_IN_BUFFER,
    MARKS_IN_BUFFER,
    MAX_BACKLOG_BYTES,
    MIN_BUFFER_BYTES,
    REFERENCE_MARK_BYTES,
    MarkBy,
)
from sluice.policy.needs import Need
from sluice.policy.overrides import OverrideTable
from sluice.policy.schemes import Marking, ThresholdRule
from sluice.policy.units import PACKET_BYTES

MAX_THRESHOLD_BYTES = 10**9
MAX_GROWTH = 1000
MARKS_IN_GROWTH = 8
"""The growth of scheme sluice is this part of the marking threshold: a window regains it in eight round trips."""
LAST_MARK_FACTOR = 3
"""Measured (docs/explanation/sluice.md): 1 costs 1.4 % of the mean FCT."""
MAX_SUB_QUEUES = 32
"""In each priority: SL_DQS_MAX_QUEUES in dataplane/laws/dqs.h."""
LEAST_OWN_MARK_BYTES = 4 * PACKET_BYTES
"""A scheme's own marking threshold is scaled down to no less, so that a window of a few packets passes unmarked."""
_MARK_PLACES = {"mark_at": 0, "mark_min": 0, "mark_max": 1}
"""Fields of marking thresholds, and their places in a scheme's marks_bytes."""
_MAX_OVERRIDES = 1000
_SHARES_SLACK = 1e-9
"""Shares may exceed 1 in all by this much, because sums of decimal fractions are rounded."""


# ── Where a field applies ──────────────────────────────────────────────────────────────────────────────────────────


def _how_it_marks(draft: Draft) -> str:
    ways = {
        Marking.NONE: "does not mark",
        Marking.PORT: "marks at mark_at",
        Marking.RED: "marks from mark_min to mark_max",
        Marking.PHANTOM: "marks at mark_at of its phantom queue",
    }
    return f"scheme {draft.scheme.name} {ways[draft.scheme.marking]}"


def _scheme_has(what: str) -> Callable[[Draft], str]:
    return lambda draft: f"scheme {draft.scheme.name} has {what}"


THRESHOLDS = Applies(
    "schemes with thresholds",
    lambda draft: draft.scheme.threshold_rule is not ThresholdRule.NONE,
    _scheme_has("no thresholds"),
)
PERCENTILES = Applies(
    "schemes whose thresholds are percentiles",
    lambda draft: draft.scheme.threshold_rule is ThresholdRule.PERCENTILE,
    _scheme_has("no percentiles"),
)
ONLINE = Applies(
    "schemes whose thresholds have the least mean slowdown",
    lambda draft: draft.scheme.threshold_rule is ThresholdRule.ONLINE,
    lambda draft: f"scheme {draft.scheme.name} computes no thresholds by mean slowdown",
)
ADAPTIVE = Applies("schemes that adapt", lambda draft: draft.scheme.threshold_rule.adapts, None)
MARKS_AT = Applies(
    "schemes that mark at one threshold",
    lambda draft: draft.scheme.marking in (Marking.PORT, Marking.PHANTOM),
    _how_it_marks,
)
MARKS_PORT = Applies(
    "schemes that mark by the port's backlog",
    lambda draft: draft.scheme.marking is Marking.PORT,
    _how_it_marks,
)
MARKS_RAMP = Applies(
    "schemes that mark with a probability",
    lambda draft: draft.scheme.marking is Marking.RED,
    _how_it_marks,
)
GROWS = Applies(
    "schemes whose congestion control grows by a policy's packets",
    lambda draft: draft.scheme.control.grows,
    lambda draft: f"in scheme {draft.scheme.name} the congestion control decides about its growth",
)
PRIORITIES = Applies(
    "schemes with priorities",
    lambda draft: Need.SHORTEST_FIRST not in draft.scheme.needs,
    _scheme_has("one queue for all flows, without priorities"),
)
FLOW_QUEUES = Applies(
    "policies with flow_queues",
    lambda draft: PRIORITIES.test(draft) and draft.read.get("flow_queues", True),
    lambda draft: "applies only with flow_queues = true",
)
TAGS_URGENCY = Applies(
    "schemes that tag urgency",
    lambda draft: draft.scheme.tags_deadlines,
    lambda draft: f"scheme {draft.scheme.name} tags no urgency",
)
READS_TAGS = Applies(
    "schemes whose tags decide about queues",
    lambda draft: draft.scheme.queue_rule.reads_tags,
    lambda draft: f"in scheme {draft.scheme.name} tags do not decide about queues",
)


# ── Kinds ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def queue_counts(draft: Draft) -> Kind:
    """The numbers of queues that the scheme's queue rule allows."""
    scheme = draft.scheme
    if scheme.threshold_rule is ThresholdRule.NONE:
        return OneOfWhole((scheme.queues,))
    counts = tuple(count for count in range(1, MAX_QUEUES + 1) if scheme.queue_rule.allows(count))
    return Whole(1, MAX_QUEUES) if len(counts) == MAX_QUEUES else OneOfWhole(counts)


def _one_for_each_threshold(item: Kind) -> Callable[[Draft], ListOf]:
    """An increasing list with one value for each demotion threshold."""

    def kind(draft: Draft) -> ListOf:
        count = draft.scheme.queue_rule.demotions(draft.queues)
        return ListOf(
            item,
            shortest=count if draft.has_queues else 0,
            longest=max(count, 0),
            increasing=True,
            because=f"scheme {draft.scheme.name}, queues = {draft.queues}",
        )

    return kind


thresholds = _one_for_each_threshold(Size(1, MAX_THRESHOLD_BYTES, bare=True))
percentiles = _one_for_each_threshold(Number(0, 100, "%", above=True))

MARK = Size(1, MAX_BACKLOG_BYTES, bare=True)
"""A marking threshold in bytes."""


@dataclass(frozen=True)
class Shares(ListOf):
    """A share of the link for each queue, at most 1 in all. Null or an empty list: strict priorities."""

    def read(self, where: str, value: object) -> Any:
        if value in ([], ()):
            return None
        shares = super().read(where, value)
        if sum(shares) > 1 + _SHARES_SLACK:
            raise FieldError(where, f"must add up to at most 1, not {sum(shares):g}")
        return shares

    def schema(self) -> Schema:
        return {
            **super().schema(),
            "minItems": 0,
            "description": "At most 1 in all. An empty list means strict priorities.",
        }


def shares(draft: Draft) -> Shares:
    """One share for each queue."""
    return Shares(
        Number(0, 1), shortest=draft.queues, longest=draft.queues, because=f"queues = {draft.queues}"
    )


def overrides(draft: Draft) -> ListOf:
    """A list of overrides, with thresholds of the scheme."""
    return ListOf(OverrideTable(thresholds(draft), draft.scheme), longest=_MAX_OVERRIDES)


# ── Defaults ───────────────────────────────────────────────────────────────────────────────────────────────────────


def default_thresholds(draft: Draft) -> tuple[int, ...]:
    """The scheme's thresholds if it has the right number of them. Raises FieldError if a static scheme has not.

    A scheme that adapts can start from any thresholds: 10 KB, 40 KB, 160 KB, …
    """
    scheme, count = draft.scheme, draft.scheme.queue_rule.demotions(draft.queues)
    if count in (0, len(scheme.thresholds_bytes)):
        return _at_most(draft.read.get("most_threshold"), scheme.thresholds_bytes[:count])
    if scheme.threshold_rule is ThresholdRule.STATIC:
        raise FieldError(
            "thresholds",
            f"is missing: scheme {scheme.name} with {draft.queues} queues needs a list of {count} values",
        )
    return tuple(10_000 * 4**i for i in range(count))


def _at_most(most: int | None, thresholds_bytes: tuple[int, ...]) -> tuple[int, ...]:
    """The thresholds, none above `most`. They still increase."""
    if most is None:
        return thresholds_bytes
    count = len(thresholds_bytes)
    return tuple(max(min(size, most - (count - 1 - i)), i + 1) for i, size in enumerate(thresholds_bytes))


def default_percentiles(draft: Draft) -> tuple[float, ...]:
    """10, 20, … %: one for each threshold."""
    return tuple(10.0 * (i + 1) for i in range(draft.scheme.queue_rule.demotions(draft.queues)))


def default_shares(draft: Draft) -> tuple[float, ...] | None:
    """The scheme's least share for each lower queue, and the rest for the first queue."""
    below, least = draft.queues - 1, draft.scheme.least_share
    return (1 - below * least, *[least] * below) if below and least else None


def default_mark(place: int) -> Of:
    """The scheme's marking threshold at this place of `marks_bytes`, in proportion to the network's K."""
    return lambda draft: _mark_in_network(draft, place)


def _mark_in_network(draft: Draft, place: int) -> int:
    own = draft.scheme.marks_bytes[place]
    scaled = _in_network(draft, own)
    return min(max(scaled, min(own, LEAST_OWN_MARK_BYTES)), MAX_BACKLOG_BYTES)


def _in_network(draft: Draft, at_reference_bytes: int) -> int:
    """Return a size that fits the papers' networks, scaled to this one."""
    return at_reference_bytes * draft.network_mark_bytes // REFERENCE_MARK_BYTES


def _mark_at(draft: Draft) -> int:
    """K of the draft, or the scheme's default while it is not read."""
    return draft.read.get("mark_at") or _mark_in_network(draft, 0)


def default_buffer(draft: Draft) -> int:
    """In proportion to the network's K; room for MARKS_IN_BUFFER marking thresholds if the scheme marks by queue."""
    if draft.scheme.mark_by is not MarkBy.QUEUE:
        named = DEFAULT_BUFFER_BYTES * _named_mark(draft) // REFERENCE_MARK_BYTES
        wanted = max(_in_network(draft, DEFAULT_BUFFER_BYTES), min(named, DEFAULT_BUFFER_BYTES))
    else:
        wanted = MARKS_IN_BUFFER * _mark_at(draft)
    return min(max(wanted, MIN_BUFFER_BYTES), MAX_BACKLOG_BYTES)


def _named_mark(draft: Draft) -> int:
    """The largest marking threshold that the document names; 0 if it names none. Its buffer must have room for it."""
    read = ((draft.read.get(name), place) for name, place in _MARK_PLACES.items())
    return max((mark for mark, place in read if mark and mark != _mark_in_network(draft, place)), default=0)


def default_mark_by(draft: Draft) -> MarkBy:
    """The scheme's, but the port's in a buffer too small for queues that wait for each other."""
    buffer_bytes = draft.read.get("buffer", default_buffer(draft))
    has_room = buffer_bytes >= LEAST_MARKS_IN_BUFFER * _mark_at(draft)
    return draft.scheme.mark_by if has_room else MarkBy.PORT


def default_last_mark_factor(draft: Draft) -> int:
    """LAST_MARK_FACTOR if the port marks by queue: only then do flows fill a queue of their own."""
    return LAST_MARK_FACTOR if _marks_by_queue(draft) else 1


def default_least_threshold(draft: Draft) -> int:
    """The marking threshold, which is about a bandwidth-delay product, if the port marks by queue."""
    return _mark_at(draft) if _marks_by_queue(draft) else 1


def _marks_by_queue(draft: Draft) -> bool:
    return bool(draft.read.get("mark_by", draft.scheme.mark_by) == MarkBy.QUEUE)


def default_growth(draft: Draft) -> int:
    """One packet, as in the papers, or a part of the marking threshold, which is about a bandwidth-delay product."""
    if not draft.scheme.grows:
        return 1
    return min(max(_mark_at(draft) // (MARKS_IN_GROWTH * PACKET_BYTES), 1), MAX_GROWTH)
