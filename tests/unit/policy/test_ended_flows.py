# SPDX-License-Identifier: Apache-2.0
"""What a hostile group of ingress ports can change of the sizes that a port believes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import assume, given
from hypothesis import strategies as st

from sluice.policy import tags
from sluice.policy.network.graph import HOST_GROUPS, INGRESS_GROUPS, TRUNKS
from sluice.policy.policing.belief import believed_ends, has_company, in_company, most_ends, sizes_in_company
from sluice.policy.thresholds.adaptation import PortCounters, percentile_edges
from sluice.policy.thresholds.port_traffic import payload_by_bucket
from sluice.policy.units import MSS_BYTES
from tests.unit.policy.port_counters import counted

BUCKETS, EDGES = tags.ATTAINED_BUCKETS, np.asarray(tags.EDGES_BYTES)
HOSTILE = INGRESS_GROUPS - 1
NOTHING = np.zeros((1, BUCKETS))
"""Payload that shows no flow."""
Ends = npt.NDArray[np.int64]

SIZES = st.lists(st.integers(64, 3_000_000), min_size=1, max_size=30)
HISTOGRAM = st.lists(st.integers(0, 9), min_size=BUCKETS, max_size=BUCKETS)
FORGED = st.lists(st.tuples(st.integers(0, BUCKETS - 1), st.integers(1, 10**6)), max_size=5)


def most_of(counters: PortCounters, burst_bytes: int = MSS_BYTES, reserved: tuple[int, ...] = ()) -> Any:
    return most_ends(payload_by_bucket(counters.packets, counters.bytes), burst_bytes, reserved)


def forged_ends(forged: list[tuple[int, int]], group: int = HOSTILE) -> Ends:
    ends = np.zeros((1, INGRESS_GROUPS, BUCKETS), np.int64)
    for bucket, count in forged:
        ends[0, group, bucket] += count
    return ends


# ── Payload ────────────────────────────────────────────────────────────────────────────────────


@given(SIZES)
def test_payload_confirms_every_end_of_honest_flows(sizes: list[int]) -> None:
    counters = counted(sizes)
    assert (believed_ends(counters.completed, most_of(counters)) == counters.completed).all()


@given(SIZES, st.sampled_from([8_960, 65_536]))
def test_with_segmentation_offload_too(sizes: list[int], burst_bytes: int) -> None:
    """A burst leaves under the tag of its first byte, so the tags between carry nothing."""
    counters = counted([])
    for size in sizes:
        for begin in range(0, size, burst_bytes):
            tag, payload = tags.attained_tag(begin), min(burst_bytes, size - begin)
            segments = -(-payload // MSS_BYTES)
            counters.packets[0, tag] += segments
            counters.bytes[0, tag] += payload + 66 * segments
        counters.completed[0, TRUNKS, tags.attained_tag(size) - tags.ATTAINED_FIRST] += 1
    assert (believed_ends(counters.completed, most_of(counters, burst_bytes)) == counters.completed).all()


@given(SIZES, FORGED)
def test_forged_ends_are_believed_only_as_far_as_honest_flows_went(
    sizes: list[int], forged: list[tuple[int, int]]
) -> None:
    honest = counted(sizes, group=1)
    ends = honest.completed + forged_ends(forged)
    kept = believed_ends(ends, most_of(honest))
    assert (kept[:, :HOSTILE] == honest.completed[:, :HOSTILE]).all()
    beyond = np.cumsum(kept[0, HOSTILE][::-1])[::-1]
    for bucket in range(1, BUCKETS):
        passed = EDGES[bucket - 1] - 4 * MSS_BYTES
        if passed >= EDGES[0]:
            start = EDGES[passed >= EDGES][-1]
            assert beyond[bucket] <= 5 / 3 * np.count_nonzero(np.asarray(sizes) > start) + 1 + 1e-9


@given(st.lists(st.integers(0, 9), min_size=BUCKETS, max_size=BUCKETS), SIZES)
def test_believed_ends__follow_their_recursion_from_the_last_bucket(
    counts: list[int], sizes: list[int]
) -> None:
    most = most_of(counted(sizes))
    ends = np.zeros((1, INGRESS_GROUPS, BUCKETS), np.int64)
    ends[0, 2] = counts
    kept, expected = 0.0, []
    for bucket in reversed(range(BUCKETS)):
        now = min(kept + counts[bucket], float(most[0, bucket]))
        expected.append(now - kept)
        kept = now
    assert np.allclose(believed_ends(ends, most)[0, 2], expected[::-1])


def test_reserved_tags__their_payload_is_under_the_next_tag() -> None:
    """Flows of 1 MB whose packets skip two tags are believed as before."""
    counters = counted([1_000_000] * 10)
    free, reserved = tags.attained_tag(999_000), (tags.attained_tag(700_000), tags.attained_tag(999_000) - 1)
    for tag in reserved:
        for column in (counters.packets, counters.bytes):
            column[0, tag + 1] += column[0, tag]
            column[0, tag] = 0
    assert free not in reserved
    kept = believed_ends(counters.completed, most_of(counters, reserved=reserved))
    assert kept.sum() == 10


# ── Company ────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.integers(0, 10**6), min_size=HOST_GROUPS, max_size=HOST_GROUPS), st.integers(0, 10**6))
def test_in_company__no_group_of_hosts_can_more_than_double_the_others(
    counts: list[int], trunks: int
) -> None:
    groups = np.asarray([[trunks, *counts]], float)
    without = groups.copy()
    without[0, HOSTILE] = 0
    assert in_company(without)[0] <= in_company(groups)[0] <= 2 * without.sum()
    assert in_company(groups)[0] <= groups.sum()


@given(
    HISTOGRAM,
    st.tuples(*[st.integers(1, 20)] * 3),
    st.integers(0, 3),
    FORGED,
    st.floats(1, 99),
)
def test_a_percentile_moves_by_at_most_a_factor_of_two_of_its_odds_and_by_the_share_of_ends(
    histogram: list[int],
    shares: tuple[int, int, int],
    trunk: int,
    forged: list[tuple[int, int]],
    percentile: float,
) -> None:
    """Three honest groups and a trunk with the same sizes, of which no group has more than the others together."""
    assume(sum(histogram) > 0 and max(shares) <= sum(shares) + trunk - max(shares))
    honest = np.zeros((1, INGRESS_GROUPS, BUCKETS), np.int64)
    for group, share in enumerate((trunk, *shares)):
        honest[0, group] = share * np.asarray(histogram)
    ends = (honest + forged_ends(forged)).astype(float)
    assert has_company(ends, 1)[0]
    (found,) = percentile_edges(sizes_in_company(ends, NOTHING, 1), [percentile])[0]
    part, hostile = percentile / 100, sum(count for _, count in forged)
    share = hostile / (hostile + honest.sum())
    odds = part / (1 - part)
    least = max(odds / 2 / (1 + odds / 2), (part - share) / (1 - share)) - 1e-6
    most = min(odds * 2 / (1 + odds * 2), part / (1 - share)) + 1e-6
    low, high = percentile_edges(np.asarray([histogram]), [100 * max(least, 0), 100 * min(most, 1)])[0]
    assert low <= found <= high


@given(HISTOGRAM, st.integers(1, 99))
def test_honest_groups_with_the_same_sizes_have_the_plain_percentiles(
    histogram: list[int], percentile: int
) -> None:
    assume(sum(histogram) > 0)
    ends = np.zeros((1, INGRESS_GROUPS, BUCKETS))
    ends[0, 1:5] = histogram
    plain = percentile_edges(np.asarray([histogram]), [percentile])
    assert (percentile_edges(sizes_in_company(ends, NOTHING, 1), [percentile]) == plain).all()
    assert np.isclose(sizes_in_company(ends, NOTHING, 1).sum(), ends.sum())


def test_one_or_two_ingress_ports_count_as_they_are() -> None:
    """Neither can tell which of them is honest."""
    ends = np.zeros((1, INGRESS_GROUPS, BUCKETS))
    ends[0, 1, 3], ends[0, 2, 20] = 100, 5
    assert not has_company(ends, 1)[0]
    assert (sizes_in_company(ends, NOTHING, 1) == ends.sum(axis=1)).all()
    ends[0, 3, 20] = 5
    assert has_company(ends, 5)[0]
    assert sizes_in_company(ends, NOTHING, 5)[0, 3] < 1e-6


def test_a_trunk_counts_in_full_and_is_company() -> None:
    ends = np.zeros((1, INGRESS_GROUPS, BUCKETS))
    ends[0, TRUNKS, 20], ends[0, 1, 3] = 100, 5_000
    assert has_company(ends, 100)[0]
    assert np.allclose(sizes_in_company(ends, NOTHING, 100)[0, [3, 20]], [0, 5_100])


def test_what_only_one_host_sends_counts_as_far_as_payload_shows_it() -> None:
    """All small flows from one host, all large ones from two others, as in the paper's mix."""
    ends, shown = np.zeros((1, INGRESS_GROUPS, BUCKETS)), np.zeros((1, BUCKETS))
    ends[0, 1, 8], ends[0, 2:4, 24] = 80, 10
    shown[0, 8], shown[0, 24] = 80, 20
    assert np.allclose(sizes_in_company(ends, shown, 1), ends.sum(axis=1))
    ends[0, HOSTILE, 0] = 10_000
    share = sizes_in_company(ends, shown, 1)[0].cumsum() / ends.sum()
    assert share[0] == 0
    assert share[8] <= 2 * 80 / (2 * 80 + 20)
