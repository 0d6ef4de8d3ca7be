# SPDX-License-Identifier: Apache-2.0
"""Strategies for the inputs of a law: all magnitudes, and the ends of the types."""

from __future__ import annotations

from hypothesis import strategies as st


def unsigned(bits: int) -> st.SearchStrategy[int]:
    """Return integers of this many bits: small ones, any, those near a power of two, and the largest."""
    top = 2**bits - 1
    near = st.integers(0, bits).flatmap(lambda b: st.integers(max(0, 2**b - 2), min(top, 2**b + 2)))
    magnitude = st.integers(0, bits).flatmap(lambda b: st.integers(0, 2**b - 1))
    return st.one_of(st.integers(0, 100), near, magnitude, st.integers(0, top))


u32 = unsigned(32)
u64 = unsigned(64)
alphas = st.one_of(st.integers(0, 2**20), st.integers(0, 2000), st.integers(2**20 - 2000, 2**20))
"""Shares of marked packets, Q20: 0 … 1."""
