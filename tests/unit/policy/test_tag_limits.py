# SPDX-License-Identifier: Apache-2.0
"""Hosts with correct tags are never accused, for any traffic. Others are, once their wrong tags
gain something."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.dataplane import laws_cffi
from sluice.policy import tags
from sluice.policy.policing.limits import breach, limits_bytes, payload_bytes, suspicion
from sluice.policy.units import FRAME_BYTES, HEADER_BYTES, MSS_BYTES
from tests.kit.known import known

GAP_MS = 10
MS = 1_000_000


@pytest.fixture(scope="module")
def laws() -> Any:
    return laws_cffi.load()


def test_payload__acknowledgements_have_none_and_full_frames_most_of_theirs() -> None:
    found = payload_bytes([1000, 10], [1000 * (HEADER_BYTES + 28), 10 * FRAME_BYTES])
    assert found[0] == 0
    assert 0.95 * 10 * MSS_BYTES < found[1] <= 10 * MSS_BYTES


def test_payload__is_what_the_longest_headers_leave() -> None:
    """14 bytes of Ethernet, 40 of IPv6, and 60 of TCP with all its options."""
    assert payload_bytes([1, 1, 2], [114, 115, 230]).tolist() == [0, 1, 2]


class Connection:
    """A sender with correct tags: messages on one connection, tagged by the law, some segments
    retransmitted."""

    def __init__(self, laws: Any, start_ns: int) -> None:
        self.laws, self.state, self.now_ns, self.sent = (
            laws,
            laws.ffi.new("struct sl_tag_state *"),
            start_ns,
            0,
        )
        self.by_tag: list[tuple[int, int, int]] = []
        """(ns, tag, payload)."""

    def segment(self, at: int, size: int, *, outstanding: bool) -> None:
        acked = self.sent - MSS_BYTES if outstanding else self.sent
        attained = self.laws.lib.sl_tag_segment(
            self.state, at % 2**32, size, acked % 2**32, self.now_ns, GAP_MS * MS
        )
        self.by_tag.append((self.now_ns, tags.attained_tag(attained), size))
        self.sent = max(self.sent, at + size)

    def message(self, size: int, per_segment_ns: int, twice: bool) -> None:
        first, begun = self.sent, self.sent
        while begun < first + size:
            piece = min(MSS_BYTES, first + size - begun)
            self.segment(begun, piece, outstanding=begun > first)
            if twice:
                self.segment(begun, piece, outstanding=True)
            begun += piece
            self.now_ns += per_segment_ns


messages = st.lists(
    st.tuples(
        st.one_of(st.integers(1, 3000), st.integers(1, 300_000)),
        st.one_of(st.just(0), st.integers(0, 3 * MS)),  # pause per segment: none in a burst, or some
        st.booleans(),  # whether everything is sent twice
        st.one_of(st.integers(GAP_MS * MS + 1, GAP_MS * MS + 1000), st.integers(0, 50 * MS)),  # pause
    ),
    min_size=1,
    max_size=80,
)


@given(messages, st.integers(1, 200), st.integers(0, 10**6))
def test_an_honest_connection_breaks_no_limit_in_any_window(
    laws: Any, script: list[tuple[int, int, bool, int]], window_ms: int, start_ns: int
) -> None:
    connection = Connection(laws, start_ns)
    for size, per_segment_ns, twice, pause_ns in script:
        connection.message(size, per_segment_ns, twice)
        connection.now_ns += pause_ns
    times, found, sizes = (np.array(column) for column in zip(*connection.by_tag, strict=True))
    for begin_ns in range(start_ns, connection.now_ns, max(window_ms * MS // 2, connection.now_ns // 20)):
        inside = (times >= begin_ns) & (times < begin_ns + window_ms * MS)
        payload = np.bincount(found[inside], weights=sizes[inside], minlength=tags.TAG_COUNT).astype(float)
        assert breach(payload, window_ms / 1000, GAP_MS) is None


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


def test_a_burst_under_one_tag_is_allowed_for() -> None:
    payload = np.zeros(tags.TAG_COUNT)
    payload[1] = limits_bytes(0.5, GAP_MS)[1] + 1
    assert breach(payload, 0.5, GAP_MS) is not None
    assert breach(payload, 0.5, GAP_MS, burst_bytes=65_536) is None


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


def test_a_lie_below_the_limit_gains_a_connection_less_than_a_thousandth_of_a_fast_link() -> None:
    assert limits_bytes(1.0, GAP_MS)[tags.ATTAINED_FIRST] * 8 < 0.001 * 10e9


def test_no_limit_for_what_promises_nothing() -> None:
    payload = np.zeros(tags.TAG_COUNT)
    for tag in (tags.UNTAGGED, tags.ATTAINED_LAST, tags.URGENCY_LAST, tags.KNOWN_SIZE_LAST, tags.BACKGROUND):
        payload[tag] = 1e12
    assert breach(payload, 1.0, GAP_MS) is None


def test_suspicion__a_fast_port_is_judged_by_a_share_of_its_link() -> None:
    payload = np.zeros((2, tags.TAG_COUNT))
    payload[:, tags.ATTAINED_FIRST] = 10**9
    rates_bps = np.array([1e12, 2e12])
    expected = 10**9 / (0.05 * rates_bps / 8 * 0.5)
    assert suspicion(payload, rates_bps, 0.5, GAP_MS) == pytest.approx(expected)
