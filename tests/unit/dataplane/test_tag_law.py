# SPDX-License-Identifier: Apache-2.0
"""laws/tag.h against the definition of a flow with unbounded integers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.policy import tags
from tests.unit.dataplane.law_driver import u32

GAP_NS = 10_000_000
U64 = 2**64 - 1


@dataclass
class Flow:
    """A flow by the definition of policy/tags.py and laws/tag.h. Positions are plain integers, not residues."""

    end: int
    """Position after the highest byte sent."""
    start: int
    last_data_ns: int = 0

    def attained(self, position: int, data_bytes: int, outstanding: bool, now_ns: int) -> int:
        if data_bytes == 0:
            return max(0, min(position, self.end) - self.start)
        new_bytes = position + data_bytes > self.end
        if new_bytes and not outstanding and now_ns - self.last_data_ns > GAP_NS:
            self.start = max(position, self.end)
        self.end = max(self.end, position + data_bytes)
        self.last_data_ns = now_ns
        return max(0, position - self.start)


packets = st.lists(
    st.tuples(
        st.one_of(
            st.just(0), st.integers(0, 2**30)
        ),  # how far behind the highest byte sent the packet begins
        st.one_of(st.just(0), st.integers(1, 1460), st.integers(0, 2**30)),  # data
        st.one_of(
            st.integers(0, 1000), st.integers(GAP_NS - 1, GAP_NS + 1), st.integers(0, 10**12)
        ),  # ns since the last
        st.booleans(),  # is earlier data still unacknowledged?
    ),
    max_size=60,
)


@given(st.integers(0, 10**8), st.sampled_from([0, 1, 1000, 10**6]), u32)
def test_deadline_tag__the_bytes_first_then_the_urgency(
    laws: ModuleType, attained_bytes: int, urgent_after_bytes: int, urgency_q16: int
) -> None:
    got = laws.lib.sl_deadline_tag(attained_bytes, urgent_after_bytes, urgency_q16)
    by_bytes = attained_bytes < urgent_after_bytes
    assert got == (tags.attained_tag(attained_bytes) if by_bytes else tags.urgency_tag(urgency_q16))


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.lists(st.integers(1, 10**6), min_size=1, max_size=30))
def test_shown__at_most_an_edge_and_a_burst_of_a_flow_has_tags_up_to_the_edges(
    laws: ModuleType, segment_bytes: int, attained_bytes: int, packets_bytes: list[int]
) -> None:
    """Whatever the lengths of packets. A packet of at most ten segments shows what its flow has attained."""
    shown = partial(laws.lib.sl_tag_shown, attained_bytes)
    short = min(segment_bytes, tags.BURST_BYTES)
    assert shown(0) == shown(short) == shown(tags.BURST_BYTES) == attained_bytes
    sent = list(accumulate(packets_bytes, initial=0))
    tag_of = [
        tags.attained_tag(laws.lib.sl_tag_shown(*packet)) for packet in zip(sent, packets_bytes, strict=False)
    ]
    assert tag_of == sorted(tag_of)
    for tag, end in zip(tag_of, sent[1:], strict=True):
        assert tag == tags.ATTAINED_LAST or end <= tags.EDGES_BYTES[tag - 1] + tags.BURST_BYTES


@given(isn=st.one_of(st.integers(0, 2**32 - 1), st.integers(2**32 - 5000, 2**32 - 1)), sent=packets)
def test_segment__attained_is_the_distance_from_the_flows_first_byte(
    laws: ModuleType, isn: int, sent: list[tuple[int, int, int, bool]]
) -> None:
    state = laws.ffi.new("struct sl_tag_state *")
    origin = 2**40 + isn
    flow = Flow(end=origin, start=origin)
    now_ns = 0
    for behind, data_bytes, later_ns, outstanding in sent:
        now_ns += later_ns
        position = max(origin, flow.end - behind)
        acked = (flow.end - outstanding) % 2**32
        expected = flow.attained(position, data_bytes, outstanding, now_ns)
        assert laws.lib.sl_tag_segment(state, position % 2**32, data_bytes, acked, now_ns, GAP_NS) == expected


def send(laws: ModuleType, state: Any, seq: int, data_bytes: int, now_ns: int) -> int:
    """Send with all earlier data acknowledged."""
    return int(laws.lib.sl_tag_segment(state, seq % 2**32, data_bytes, state.end % 2**32, now_ns, GAP_NS))


@given(st.integers(0, U64), st.integers(0, 2**29))
def test_gap__is_at_least_two_round_trips(laws: ModuleType, configured_ns: int, srtt_us: int) -> None:
    assert laws.lib.sl_tag_gap_ns(configured_ns, srtt_us) == max(configured_ns, 2000 * srtt_us)


@given(u32, st.integers(1, U64 - 2 * GAP_NS - 1))
def test_unseen__is_larger_than_every_edge_until_it_is_idle(laws: ModuleType, seq: int, now_ns: int) -> None:
    state = laws.ffi.new("struct sl_tag_state *")
    assert not laws.lib.sl_tag_is_unseen(state)
    laws.lib.sl_tag_unseen(state, seq, now_ns)
    assert send(laws, state, seq, 1000, now_ns) > tags.EDGES_BYTES[-1]
    assert laws.lib.sl_tag_is_unseen(state)
    assert send(laws, state, seq + 1000, 1000, now_ns + GAP_NS + 1) == 0
    assert not laws.lib.sl_tag_is_unseen(state)


def test_carried_data__false_for_the_idle_half_of_a_connection(laws: ModuleType) -> None:
    state = laws.ffi.new("struct sl_tag_state *")
    assert not laws.lib.sl_tag_carried_data(state)
    send(laws, state, 77, 0, 0)
    assert not laws.lib.sl_tag_carried_data(state), "pure ACKs are no data"
    send(laws, state, 77, 1, 1)
    assert laws.lib.sl_tag_carried_data(state)
    send(laws, state, 78, 1, 5 * GAP_NS)
    assert laws.lib.sl_tag_carried_data(state), "even if a new flow starts after a gap"


def test_segment__a_probe_before_the_first_byte_has_attained_nothing(laws: ModuleType) -> None:
    """A keep-alive repeats the sequence number before the first byte, which is the largest one if that is 0."""
    state = laws.ffi.new("struct sl_tag_state *")
    send(laws, state, 0, 1000, 0)
    assert send(laws, state, -1, 0, 1) == 0


def test_segment__clock_of_another_cpu_may_be_behind(laws: ModuleType) -> None:
    state = laws.ffi.new("struct sl_tag_state *")
    send(laws, state, 0, 1000, 10**12)
    assert send(laws, state, 1000, 1000, 10**12 - 5) == 1000


@given(st.lists(st.tuples(st.integers(0, 65_507), st.integers(0, 3 * GAP_NS)), max_size=60))
def test_datagram__attained_is_the_sum_since_the_last_gap(
    laws: ModuleType, sent: list[tuple[int, int]]
) -> None:
    state = laws.ffi.new("struct sl_tag_state *")
    now_ns, total, last_ns = 0, 0, 0
    for data_bytes, later_ns in sent:
        now_ns += later_ns
        if now_ns - last_ns > GAP_NS:
            total = 0
        assert laws.lib.sl_tag_datagram(state, data_bytes, now_ns, GAP_NS) == total
        total, last_ns = total + data_bytes, now_ns


@pytest.mark.parametrize(
    ("law", "of_policy", "edges"),
    [
        ("sl_attained_tag", tags.attained_tag, (*tags.EDGES_BYTES, 2**32, U64 - 1)),
        ("sl_urgency_tag", tags.urgency_tag, (*tags.URGENCY_EDGES_Q16, 2**32 - 2)),
        ("sl_known_size_tag", tags.known_size_tag, (*tags.KNOWN_SIZE_EDGES_BYTES, U64 - 1)),
    ],
)
def test_tags__are_the_policys_around_every_edge(
    laws: ModuleType, law: str, of_policy: Callable[[int], int], edges: Iterable[int]
) -> None:
    for edge in (1, *edges):
        for value in (edge - 1, edge, edge + 1):
            assert getattr(laws.lib, law)(value) == of_policy(value)
