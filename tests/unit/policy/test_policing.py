# SPDX-License-Identifier: Apache-2.0
"""What a hostile group of ingress ports can change of the sizes that a port believes."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sluice.policy import tags
from sluice.policy.network.graph import HOST_GROUPS, INGRESS_GROUPS, TRUNKS
from sluice.policy.policing.limits import (
    FIRST_TERM_NS,
    FORGET_NS,
    LONGEST_TERM_NS,
    WATCH_NS,
    HostState,
    Treatment,
    breach,
    limits_bytes,
    payload_bytes,
    suspicion,
)
from sluice.policy.thresholds import port_traffic
from sluice.policy.thresholds.adaptation import PortCounters, percentile_edges
from sluice.policy.units import MSS_BYTES
from tests.kit.controller import counted
from tests.kit.known import known

BUCKETS, EDGES = tags.ATTAINED_BUCKETS, np.asarray(tags.EDGES_BYTES)
HOSTILE = INGRESS_GROUPS - 1
NOTHING = np.zeros((1, BUCKETS))
"""Payload that shows no flow."""
Ends = npt.NDArray[np.int64]

SIZES = st.lists(st.integers(64, 3_000_000), min_size=1, max_size=30)
HISTOGRAM = st.lists(st.integers(0, 9), min_size=BUCKETS, max_size=BUCKETS)
FORGED = st.lists(st.tuples(st.integers(0, BUCKETS - 1), st.integers(1, 10**6)), max_size=5)


def most_of(counters: PortCounters, burst_bytes: int = MSS_BYTES, reserved: tuple[int, ...] = ()) -> Any:
    payload = port_traffic.payload_by_bucket(counters.packets, counters.bytes)
    return port_traffic.most_ends(payload, burst_bytes, reserved)


def forged_ends(forged: list[tuple[int, int]], group: int = HOSTILE) -> Ends:
    ends = np.zeros((1, INGRESS_GROUPS, BUCKETS), np.int64)
    for bucket, count in forged:
        ends[0, group, bucket] += count
    return ends


# ── Payload ────────────────────────────────────────────────────────────────────────────────────


@given(SIZES)
def test_payload_confirms_every_end_of_honest_flows(sizes: list[int]) -> None:
    counters = counted(sizes)
    assert (port_traffic.believed_ends(counters.completed, most_of(counters)) == counters.completed).all()


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
    assert (
        port_traffic.believed_ends(counters.completed, most_of(counters, burst_bytes)) == counters.completed
    ).all()


@given(SIZES, FORGED)
def test_forged_ends_are_believed_only_as_far_as_honest_flows_went(
    sizes: list[int], forged: list[tuple[int, int]]
) -> None:
    honest = counted(sizes, group=1)
    ends = honest.completed + forged_ends(forged)
    kept = port_traffic.believed_ends(ends, most_of(honest))
    assert (kept[:, :HOSTILE] == honest.completed[:, :HOSTILE]).all()
    beyond = np.cumsum(kept[0, HOSTILE][::-1])[::-1]
    for bucket in range(1, BUCKETS):
        passed = EDGES[bucket - 1] - 4 * MSS_BYTES
        if passed >= EDGES[0]:
            start = EDGES[passed >= EDGES][-1]
            assert beyond[bucket] <= 5 / 3 * np.count_nonzero(np.asarray(sizes) > start) + 1 + 1e-9


def test_reserved_tags__their_payload_is_under_the_next_tag() -> None:
    """Flows of 1 MB whose packets skip two tags are believed as before."""
    counters = counted([1_000_000] * 10)
    free, reserved = tags.attained_tag(999_000), (tags.attained_tag(700_000), tags.attained_tag(999_000) - 1)
    for tag in reserved:
        for column in (counters.packets, counters.bytes):
            column[0, tag + 1] += column[0, tag]
            column[0, tag] = 0
    assert free not in reserved
    kept = port_traffic.believed_ends(counters.completed, most_of(counters, reserved=reserved))
    assert kept.sum() == 10


# ── Company ────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.integers(0, 10**6), min_size=HOST_GROUPS, max_size=HOST_GROUPS), st.integers(0, 10**6))
def test_in_company__no_group_of_hosts_can_more_than_double_the_others(
    counts: list[int], trunks: int
) -> None:
    groups = np.asarray([[trunks, *counts]], float)
    without = groups.copy()
    without[0, HOSTILE] = 0
    assert port_traffic.in_company(without)[0] <= port_traffic.in_company(groups)[0] <= 2 * without.sum()
    assert port_traffic.in_company(groups)[0] <= groups.sum()


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
    assert port_traffic.has_company(ends, 1)[0]
    (found,) = percentile_edges(port_traffic.sizes_in_company(ends, NOTHING, 1), [percentile])[0]
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
    assert (percentile_edges(port_traffic.sizes_in_company(ends, NOTHING, 1), [percentile]) == plain).all()
    assert np.isclose(port_traffic.sizes_in_company(ends, NOTHING, 1).sum(), ends.sum())


def test_one_or_two_ingress_ports_count_as_they_are() -> None:
    """Neither can tell which of them is honest."""
    ends = np.zeros((1, INGRESS_GROUPS, BUCKETS))
    ends[0, 1, 3], ends[0, 2, 20] = 100, 5
    assert not port_traffic.has_company(ends, 1)[0]
    assert (port_traffic.sizes_in_company(ends, NOTHING, 1) == ends.sum(axis=1)).all()
    ends[0, 3, 20] = 5
    assert port_traffic.has_company(ends, 5)[0]
    assert port_traffic.sizes_in_company(ends, NOTHING, 5)[0, 3] < 1e-6


def test_a_trunk_counts_in_full_and_is_company() -> None:
    ends = np.zeros((1, INGRESS_GROUPS, BUCKETS))
    ends[0, TRUNKS, 20], ends[0, 1, 3] = 100, 5_000
    assert port_traffic.has_company(ends, 100)[0]
    assert np.allclose(port_traffic.sizes_in_company(ends, NOTHING, 100)[0, [3, 20]], [0, 5_100])


def test_what_only_one_host_sends_counts_as_far_as_payload_shows_it() -> None:
    """All small flows from one host, all large ones from two others, as in the paper's mix."""
    ends, shown = np.zeros((1, INGRESS_GROUPS, BUCKETS)), np.zeros((1, BUCKETS))
    ends[0, 1, 8], ends[0, 2:4, 24] = 80, 10
    shown[0, 8], shown[0, 24] = 80, 20
    assert np.allclose(port_traffic.sizes_in_company(ends, shown, 1), ends.sum(axis=1))
    ends[0, HOSTILE, 0] = 10_000
    share = port_traffic.sizes_in_company(ends, shown, 1)[0].cumsum() / ends.sum()
    assert share[0] == 0
    assert share[8] <= 2 * 80 / (2 * 80 + 20)


# ── The states of a sanction over time ─────────────────────────────────────────────────────────


S = 1_000_000_000


def test_suspicion_has_a_port_watched_and_goes_by() -> None:
    watched = HostState().suspected(10 * S)
    assert watched.treatment is Treatment.WATCHED
    assert watched.after(10 * S + WATCH_NS - 1) == watched
    assert watched.suspected(12 * S).after(10 * S + WATCH_NS).treatment is Treatment.WATCHED
    assert watched.after(10 * S + WATCH_NS).treatment is Treatment.FREE


def test_proof_demotes_for_as_long_as_it_is_renewed_and_a_term() -> None:
    demoted = HostState().suspected(0).proven(S)
    assert (demoted.treatment, demoted.offences) == (Treatment.DEMOTED, 1)
    assert demoted.term_s == 5
    renewed = demoted.proven(4 * S)
    assert renewed.offences == 1
    assert renewed.after(S + FIRST_TERM_NS) == renewed
    assert renewed.after(4 * S + FIRST_TERM_NS).treatment is Treatment.WATCHED


def test_each_offence_doubles_the_term_up_to_the_longest() -> None:
    state, now, terms = HostState(), 0, []
    for _ in range(10):
        state = state.proven(now)
        terms.append(state.term_ns)
        now += state.term_ns
        state = state.after(now)
        assert state.treatment is Treatment.WATCHED
    assert terms[:4] == [FIRST_TERM_NS * 2**n for n in range(4)]
    assert terms[-1] == LONGEST_TERM_NS


def test_offences_are_forgotten_after_a_long_time_without_another() -> None:
    state = HostState().proven(0).after(FIRST_TERM_NS)
    free = state.after(FIRST_TERM_NS + WATCH_NS)
    assert (free.treatment, free.offences) == (Treatment.FREE, 1)
    assert free.after(FIRST_TERM_NS + WATCH_NS + FORGET_NS - 1) == free
    assert free.after(FIRST_TERM_NS + WATCH_NS + FORGET_NS) == HostState()


@given(st.lists(st.tuples(st.sampled_from(["suspected", "after", "resumed"]), st.integers(0, 20 * S))))
def test_nothing_but_proof_demotes(script: list[tuple[str, int]]) -> None:
    state, now = HostState(), 0
    for method, passed in script:
        now += passed
        state = getattr(state, method)(now)
        assert state.treatment is not Treatment.DEMOTED


# Hosts with correct tags are never accused, for any traffic. Others are, once their wrong tags
# gain something.


GAP_MS = 10


def test_payload__is_what_the_longest_headers_leave() -> None:
    """14 bytes of Ethernet, 40 of IPv6, and 60 of TCP with all its options."""
    assert payload_bytes([1, 1, 2], [114, 115, 230]).tolist() == [0, 1, 2]


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=40), st.integers(1, 500))
def test_suspicion__a_port_with_one_liar_is_one_whatever_else_is_sent_there(
    sizes: list[int], window_ms: int
) -> None:
    payload = np.zeros((2, tags.TAG_COUNT))
    for size in sizes:
        for at in range(0, size, MSS_BYTES):
            payload[:, tags.attained_tag(at)] += min(MSS_BYTES, size - at)
    honest = breach(payload[0], window_ms / 1000, GAP_MS) is not None
    payload[1, 3] += limits_bytes(window_ms / 1000, GAP_MS)[3] + 1
    slow = np.full(2, 1e5)
    assert (suspicion(payload, slow, window_ms / 1000, GAP_MS) > 1).tolist() == [honest, True]
    assert (suspicion(payload, np.full(2, 1e13), window_ms / 1000, GAP_MS) <= 1).all(), "a trifle there"


@pytest.mark.parametrize("tag", [1, 5, 9, 57])
def test_whoever_always_says_the_same_small_tag_is_found_out(tag: int) -> None:
    limit = limits_bytes(0.5, GAP_MS)[tag]
    payload = np.zeros(tags.TAG_COUNT)
    payload[tag] = limit
    assert breach(payload, 0.5, GAP_MS) is None
    payload[tag] = limit + 1
    found = known(breach(payload, 0.5, GAP_MS))
    assert (found.tag, found.sent_bytes, found.limit_bytes) == (tag, limit + 1, limit)


def test_limits__by_hand() -> None:
    """Within 0.5 s, 50 flows can begin 10 ms apart, and 2 more overlap. Each byte may be sent twice."""
    limits = limits_bytes(0.5, GAP_MS)
    assert limits[tags.ATTAINED_FIRST] == 2 * 52 * (1000 + MSS_BYTES)
    assert limits[tags.KNOWN_SIZE_FIRST] == 2 * 52 * (100_000 + MSS_BYTES)
    assert limits_bytes(0.5, GAP_MS, burst_bytes=65_536)[1] == 2 * 52 * (1000 + 65_536)
    assert limits_bytes(10.0, 1)[tags.ATTAINED_FIRST] == 2 * 10_002 * (1000 + MSS_BYTES)


def test_breach__what_a_flow_sends_under_several_tags_counts_under_the_largest() -> None:
    """Each tag alone is within its limit."""
    last = tags.ATTAINED_LAST - 1
    payload = np.zeros(tags.TAG_COUNT)
    payload[[tags.ATTAINED_FIRST, last]] = limits_bytes(0.5, GAP_MS)[[tags.ATTAINED_FIRST, last]]
    found = known(breach(payload, 0.5, GAP_MS))
    assert (found.tag, found.sent_bytes) == (last, payload.sum())


def test_no_limit_for_what_promises_nothing() -> None:
    payload = np.zeros(tags.TAG_COUNT)
    for tag in (tags.UNTAGGED, tags.ATTAINED_LAST, tags.URGENCY_LAST, tags.KNOWN_SIZE_LAST, tags.BACKGROUND):
        payload[tag] = 1e12
    assert breach(payload, 1.0, GAP_MS) is None
