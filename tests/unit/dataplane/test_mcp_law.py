# SPDX-License-Identifier: Apache-2.0
"""laws/mcp.h: the rate that completes a flow in time (Karuna, SIGCOMM 2016, section 4), in rational numbers."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.dataplane.wide import u32, u64

LARGEST_BYTES = 2**44
LARGEST_RTT_US = 2**19
NO_BOUND = 2**31 - 1


def bound(remaining_bytes: int, left_us: int, rtt_us: int, mss_bytes: int) -> int:
    """Return ceil(gamma * RTT / MSS), at least 2, with gamma = V_remain / T_remain. NO_BOUND: no deadline ahead."""
    if 0 in (left_us, rtt_us, mss_bytes):
        return NO_BOUND
    gamma_bytes_per_us = Fraction(min(remaining_bytes, LARGEST_BYTES), left_us)
    packets = ceil(gamma_bytes_per_us * min(rtt_us, LARGEST_RTT_US) / mss_bytes)
    return min(NO_BOUND, max(2, packets))


@given(u64, u64, u32, u32)
def test_bound__is_the_needed_rate_in_packets(
    laws: ModuleType, remaining_bytes: int, left_us: int, rtt_us: int, mss_bytes: int
) -> None:
    expected = bound(remaining_bytes, left_us, rtt_us, mss_bytes)
    assert laws.lib.sl_mcp_bound(remaining_bytes, left_us, rtt_us, mss_bytes) == expected


@given(
    st.integers(0, 10**9), st.integers(1, 10**8), st.integers(1, 10**5), st.sampled_from([1, 536, 1448, 8948])
)
def test_bound__of_usual_flows(
    laws: ModuleType, remaining_bytes: int, left_us: int, rtt_us: int, mss_bytes: int
) -> None:
    expected = bound(remaining_bytes, left_us, rtt_us, mss_bytes)
    assert laws.lib.sl_mcp_bound(remaining_bytes, left_us, rtt_us, mss_bytes) == expected


def test_bound__by_hand(laws: ModuleType) -> None:
    bound_of = laws.lib.sl_mcp_bound
    assert bound_of(10_000_000, 1_000_000, 1000, 1000) == 10
    assert bound_of(10_000_001, 1_000_000, 1000, 1000) == 11, "not a byte a second too little"
    assert bound_of(1000, 1_000_000, 1000, 1000) == bound_of(0, 1, 1, 1) == 2, "at least 2"
    for unknown in ((1000, 0, 1000, 1000), (1000, 1000, 0, 1000), (1000, 1000, 1000, 0)):
        assert bound_of(*unknown) == laws.lib.SL_MCP_NO_BOUND == NO_BOUND
    rtts_us = (2**18 + 1, 2**19 - 1, 2**19, 2**19 + 1, 2**20, 2**32 - 1)
    assert [bound_of(10**6, 10**6, rtt_us, 1) for rtt_us in rtts_us] == [
        min(2**19, rtt_us) for rtt_us in rtts_us
    ]
    assert bound_of(2**31 - 2, 1, 1, 1) == 2**31 - 2
    assert bound_of(2**64 - 1, 1, 2**32 - 1, 1) == NO_BOUND


@given(
    st.integers(1, 10**9), st.integers(1, 10**6), st.integers(50, 10**5), st.sampled_from([536, 1448, 8948])
)
def test_bound__a_flow_that_sends_it_each_round_trip_is_done_in_time(
    laws: ModuleType, remaining_bytes: int, left_ms: int, rtt_us: int, mss_bytes: int
) -> None:
    left_us = 1000 * left_ms
    packets = laws.lib.sl_mcp_bound(remaining_bytes, left_us, rtt_us, mss_bytes)
    assert Fraction(packets * mss_bytes, rtt_us) * left_us >= remaining_bytes
