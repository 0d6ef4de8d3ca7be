# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policy import tags
from policy.desired import Policy
from policy.queue_map import changed, mlfq_map, queue_map

thresholds = st.lists(st.integers(1, 10**9), min_size=1, max_size=7).map(sorted)


@given(thresholds, st.integers(0, 10**9))
def test_mlfq_map__a_flow_is_in_queue_i_while_it_has_sent_at_most_threshold_i(limits, attained):
    queues = len(limits) + 1
    queue_of = mlfq_map(limits, queues=queues, untagged_queue=0)
    bucket_top = tags.EDGES_BYTES[tags.attained_tag(attained) - tags.ATTAINED_FIRST]
    expected = sum(bucket_top > tags.snap_to_edge(limit) for limit in limits)
    assert queue_of[tags.attained_tag(attained)] == expected


@given(thresholds)
def test_mlfq_map__never_promotes_as_bytes_are_sent(limits):
    queue_of = mlfq_map(limits, queues=len(limits) + 1, untagged_queue=0)
    attained = queue_of[tags.ATTAINED_FIRST : tags.ATTAINED_LAST + 1]
    assert list(attained) == sorted(attained)


def test_queue_map__one_queue_for_schemes_without_thresholds():
    assert set(queue_map(Policy.from_document({"scheme": "dctcp"}), ())) == {0}


def test_queue_map__untagged_goes_where_the_policy_says():
    policy = Policy.from_document(
        {"scheme": "pias", "queues": 2, "thresholds": ["10KB"], "untagged_queue": 0}
    )
    assert queue_map(policy, policy.thresholds)[tags.UNTAGGED] == 0


@given(thresholds, thresholds)
def test_changed__applied_to_the_installed_map_gives_the_wanted_one(before, after):
    installed = mlfq_map(before, queues=8, untagged_queue=7)
    wanted = mlfq_map(after, queues=8, untagged_queue=7)
    result = list(installed)
    for tag, queue in changed(installed, wanted).items():
        assert result[tag] != queue
        result[tag] = queue
    assert tuple(result) == wanted


def test_changed__from_nothing_is_everything():
    wanted = mlfq_map([10_000], queues=2, untagged_queue=1)
    assert changed(None, wanted) == dict(enumerate(wanted))
