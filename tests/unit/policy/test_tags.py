# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluice.policy import tags


def test_edges__are_eighths_of_a_decade_and_10_kb_is_one() -> None:
    assert tags.EDGES_BYTES[0] == 1000
    assert 10_000 in tags.EDGES_BYTES
    assert tags.EDGES_BYTES[-1] == 74_989_421
    assert len(tags.EDGES_BYTES) == 40


@given(st.integers(0, 2**63))
def test_attained_tag__bucket_contains_the_bytes(attained: int) -> None:
    k = tags.attained_tag(attained) - tags.ATTAINED_FIRST
    assert 0 <= k < 40
    if k:
        assert attained > tags.EDGES_BYTES[k - 1]
    if k < 39:
        assert attained <= tags.EDGES_BYTES[k]


def test_attained_tag__an_edge_belongs_to_the_bucket_below() -> None:
    assert tags.attained_tag(10_000) == tags.attained_tag(9_999)
    assert tags.attained_tag(10_001) == tags.attained_tag(10_000) + 1


def test_urgency_tag__one_is_an_edge() -> None:
    below = tags.urgency_tag(tags.URGENCY_ONE)
    assert tags.urgency_tag(tags.URGENCY_ONE + 1) == below + 1
    assert tags.urgency_tag(0) == tags.URGENCY_FIRST
    assert tags.urgency_tag(2**40) == tags.URGENCY_LAST


@given(st.integers(1, 10**9))
def test_snap_to_edge__never_above_the_threshold_unless_below_the_first_edge(threshold: int) -> None:
    edge = tags.snap_to_edge(threshold)
    assert edge in tags.EDGES_BYTES
    assert edge <= max(threshold, 1000)


def test_bucket_width__adds_up_to_the_edge() -> None:
    widths = [tags.bucket_width_bytes(tag) for tag in range(1, 10)]
    assert sum(widths) == tags.EDGES_BYTES[8] == 10_000
