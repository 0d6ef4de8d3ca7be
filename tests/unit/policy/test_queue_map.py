# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.policy import tags
from sluice.policy.schema.desired import Policy, changed, host_queue_map, queue_map
from sluice.policy.schemes import SCHEMES
from sluice.policy.schemes.queues import (
    by_size_map,
    merged_map,
    mlfq_map,
    sieve_map,
    two_level_map,
    urgency_levels,
)

thresholds = st.lists(st.integers(1, 10**9), min_size=1, max_size=7).map(sorted)
few_thresholds = st.lists(st.integers(1, 10**9), min_size=1, max_size=3).map(sorted)

ATTAINED = slice(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1)
URGENCY = slice(tags.URGENCY_FIRST, tags.URGENCY_LAST + 1)
KNOWN = slice(tags.KNOWN_SIZE_FIRST, tags.KNOWN_SIZE_LAST + 1)


@pytest.mark.parametrize("name", SCHEMES)
def test_queue_map__every_tag_has_a_queue_of_the_policy(name: str) -> None:
    policy = Policy.from_document({"scheme": name})
    queues = queue_map(policy, policy.thresholds)
    assert len(queues) == tags.TAG_COUNT
    assert set(queues) <= set(range(policy.queues))


@pytest.mark.parametrize("name", SCHEMES)
def test_queue_map__background_and_untagged_traffic_are_last(name: str) -> None:
    policy = Policy.from_document({"scheme": name})
    queues = queue_map(policy, policy.thresholds)
    assert queues[tags.BACKGROUND] == queues[tags.UNTAGGED] == policy.queues - 1


@pytest.mark.parametrize("name", SCHEMES)
def test_queue_map__tags_that_no_host_of_the_scheme_writes_are_last(name: str) -> None:
    policy = Policy.from_document({"scheme": name})
    queues, last = queue_map(policy, policy.thresholds), {policy.queues - 1}
    assert policy.definition.tags_deadlines or set(queues[URGENCY]) == last
    assert policy.definition.tags_sizes or set(queues[KNOWN]) == last


@pytest.mark.parametrize("name", SCHEMES)
def test_queue_map__a_flow_never_rises_by_sending_and_never_falls_by_urgency(name: str) -> None:
    policy = Policy.from_document({"scheme": name})
    queues = queue_map(policy, policy.thresholds)
    assert list(queues[ATTAINED]) == sorted(queues[ATTAINED])
    assert list(queues[URGENCY]) == sorted(queues[URGENCY], reverse=True)
    assert list(queues[KNOWN]) == sorted(queues[KNOWN])


@pytest.mark.parametrize("name", SCHEMES)
def test_queue_of_level__is_where_the_map_puts_flows_that_have_passed_so_many_thresholds(name: str) -> None:
    policy = Policy.from_document({"scheme": name})
    if policy.thresholds:
        queues = queue_map(policy, tags.EDGES_BYTES[3::4][: len(policy.thresholds)])
        levels = range(len(policy.thresholds) + 1)
        beyond_the_first_packet = queues[ATTAINED][1:]
        assert sorted(set(beyond_the_first_packet)) == [
            policy.definition.queue_rule.queue_of_level(level) for level in levels
        ]


def test_queue_map__one_queue_for_schemes_without_thresholds() -> None:
    assert set(queue_map(Policy.from_document({"scheme": "dctcp"}), ())) == {0}


def test_queue_map__untagged_goes_where_the_policy_says() -> None:
    policy = Policy.from_document(
        {"scheme": "pias", "queues": 2, "thresholds": ["10KB"], "untagged_queue": 0}
    )
    assert queue_map(policy, policy.thresholds)[tags.UNTAGGED] == 0


@given(thresholds)
def test_merged_map__is_mlfq_for_flows_without_deadline_and_of_unknown_size(levels: list[int]) -> None:
    given_to = {"queues": len(levels) + 1, "untagged_queue": 0}
    merged, mlfq = merged_map(levels, **given_to), mlfq_map(levels, **given_to)
    assert merged[ATTAINED] == mlfq[ATTAINED]


def test_merged_map__urgent_flows_share_the_second_queue() -> None:
    assert set(merged_map([10**5, 10**6, 10**7], queues=4, untagged_queue=3)[URGENCY]) == {1}
    assert set(merged_map([10**5, 10**6], queues=3, untagged_queue=2)[URGENCY]) == {1}
    assert set(merged_map([], queues=1, untagged_queue=0)) == {0}


def test_merged_map__a_known_size_is_where_the_smallest_flow_of_its_class_would_end() -> None:
    levels = [100_000, 240_000, 750_000, 1_800_000, 10_000_000]
    assert merged_map(levels, queues=6, untagged_queue=5)[KNOWN] == (0, 1, 3, 5)


@given(thresholds, st.integers(0, 10**9))
def test_mlfq_map__a_flow_is_in_queue_i_while_it_has_sent_at_most_threshold_i(
    limits: list[int], attained: int
) -> None:
    queues = len(limits) + 1
    queue_of = mlfq_map(limits, queues=queues, untagged_queue=0)
    bucket_top = tags.EDGES_BYTES[tags.attained_tag(attained) - tags.ATTAINED_FIRST]
    expected = sum(bucket_top > tags.snap_to_edge(limit) for limit in limits)
    assert queue_of[tags.attained_tag(attained)] == expected


@given(thresholds)
def test_mlfq_map__never_promotes_as_bytes_are_sent(limits: list[int]) -> None:
    queue_of = mlfq_map(limits, queues=len(limits) + 1, untagged_queue=0)
    assert list(queue_of[ATTAINED]) == sorted(queue_of[ATTAINED])


@given(few_thresholds)
def test_two_level_map__flows_without_deadline_have_the_first_queue_of_every_pair(limits: list[int]) -> None:
    levels = len(limits) + 1
    queue_of = two_level_map(limits, queues=2 * levels, untagged_queue=0)
    alone = mlfq_map(limits, queues=levels, untagged_queue=0)
    assert [queue // 2 for queue in queue_of[ATTAINED]] == list(alone[ATTAINED])
    assert {queue % 2 for queue in queue_of[ATTAINED]} == {0}
    assert {queue % 2 for queue in queue_of[URGENCY]} == {1}


@given(few_thresholds)
def test_two_level_map__more_bytes_never_rise_and_more_urgency_never_falls(limits: list[int]) -> None:
    queue_of = two_level_map(limits, queues=2 * len(limits) + 2, untagged_queue=0)
    assert all(lower <= upper for lower, upper in pairwise(queue_of[ATTAINED]))
    assert all(less >= more for less, more in pairwise(queue_of[URGENCY]))


def test_two_level_map__the_slides_eight_queues() -> None:
    """Four levels: priorities 1, 3, 5, 7 by bytes sent, and 2, 4, 6, 8 by urgency, the most urgent first."""
    queue_of = two_level_map([10_000, 100_000, 1_000_000], queues=8, untagged_queue=7)
    assert [queue_of[tags.attained_tag(sent)] for sent in (0, 10_000, 10_001, 100_001, 10**7)] == [
        0,
        0,
        2,
        4,
        6,
    ]
    one = tags.URGENCY_ONE
    urgencies = (0, one // 4, one // 4 + 1, one, one + 1, 4 * one, 4 * one + 1, 16 * one)
    assert [queue_of[tags.urgency_tag(s)] for s in urgencies] == [7, 7, 5, 5, 3, 3, 1, 1]


@pytest.mark.parametrize("levels", [2, 4, 8])
def test_urgency_levels__urgency_one_parts_the_upper_half_from_the_lower(levels: int) -> None:
    steps = urgency_levels(levels)
    at_one = tags.urgency_tag(tags.URGENCY_ONE) - tags.URGENCY_FIRST
    assert steps[at_one] == levels // 2
    assert steps[at_one + 1] == levels // 2 - 1


@pytest.mark.parametrize("levels", range(1, 9))
def test_urgency_levels__every_level_has_its_part_of_the_steps(levels: int) -> None:
    steps = urgency_levels(levels)
    assert steps[0] == levels - 1
    assert steps[-1] == 0
    counts = [steps.count(level) for level in range(levels)]
    assert max(counts) - min(counts) <= 1


def test_sieve_map__deadline_flows_have_the_first_queue_with_acks_and_first_packets_alone() -> None:
    queue_of = sieve_map([10_000, 1_000_000], queues=4, untagged_queue=3)
    assert set(queue_of[URGENCY]) == {0}
    assert [tag for tag, queue in enumerate(queue_of) if queue == 0] == [1, *range(41, 57)]


@given(st.lists(st.integers(1, 10**9), min_size=0, max_size=6).map(sorted), st.integers(1, 10**9))
def test_sieve_map__a_known_size_is_where_the_largest_of_its_class_would_end(
    limits: list[int], size: int
) -> None:
    queue_of = sieve_map(limits, queues=len(limits) + 2, untagged_queue=0)
    tag = tags.known_size_tag(size)
    if tag == tags.KNOWN_SIZE_LAST:
        assert queue_of[tag] == len(limits) + 1
    else:
        largest = tags.KNOWN_SIZE_EDGES_BYTES[tag - tags.KNOWN_SIZE_FIRST]
        assert queue_of[tag] == queue_of[tags.attained_tag(largest)]
        assert queue_of[tag] >= queue_of[tags.attained_tag(size - 1)]


def test_by_size_map__a_class_a_queue_and_who_says_nothing_is_last() -> None:
    queue_of = by_size_map((), queues=4, untagged_queue=3)
    assert queue_of[KNOWN] == (0, 1, 2, 3)
    assert set(queue_of[ATTAINED]) == set(queue_of[URGENCY]) == {3}


@given(thresholds, thresholds)
def test_changed__applied_to_the_installed_map_gives_the_wanted_one(
    before: list[int], after: list[int]
) -> None:
    installed = mlfq_map(before, queues=8, untagged_queue=7)
    wanted = mlfq_map(after, queues=8, untagged_queue=7)
    result = list(installed)
    for tag, queue in changed(installed, wanted).items():
        assert result[tag] != queue
        result[tag] = queue
    assert tuple(result) == wanted


def test_changed__from_nothing_is_everything() -> None:
    wanted = mlfq_map([10_000], queues=2, untagged_queue=1)
    assert changed(None, wanted) == dict(enumerate(wanted))


@pytest.mark.parametrize("name", SCHEMES)
def test_host_queue_map__is_that_of_a_port_with_the_policys_thresholds_unless_switched_off(name: str) -> None:
    policy = Policy.from_document({"scheme": name})
    assert host_queue_map(policy) == queue_map(policy, policy.thresholds)
    if policy.host_queues:
        without = Policy.from_document({"scheme": name, "host_queues": False})
        assert set(host_queue_map(without)) == {0}
    assert policy.host_queues == policy.definition.queue_rule.reads_tags
