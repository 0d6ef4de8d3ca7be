# SPDX-License-Identifier: Apache-2.0
"""Strategies for the inputs of a law: every magnitude alike, and the ends of the types."""

from __future__ import annotations

from hypothesis import strategies as st


def unsigned(bits: int) -> st.SearchStrategy[int]:
    """Integers of this many bits: small ones, any, those beside a power of two, and the largest."""
    top = 2**bits - 1
    beside = st.integers(0, bits).flatmap(lambda b: st.integers(max(0, 2**b - 2), min(top, 2**b + 2)))
    magnitude = st.integers(0, bits).flatmap(lambda b: st.integers(0, 2**b - 1))
    return st.one_of(st.integers(0, 100), beside, magnitude, st.integers(0, top))


u32 = unsigned(32)
u64 = unsigned(64)
alphas = st.one_of(st.integers(0, 2**20), st.integers(0, 2000), st.integers(2**20 - 2000, 2**20))
"""Shares of marked packets, Q20: 0 … 1."""
