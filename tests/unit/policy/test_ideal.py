# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice import topologies
from sluice.policy.figures.metrics import IdealTimes, ideal_fct_us
from sluice.policy.network.graph import Topology
from sluice.policy.units import FRAME_BYTES, MSS_BYTES
from tests.unit.policy.networks import RATE_BPS, star

LEAF_SPINE = {
    "leaves": 3,
    "spines": 2,
    "hosts_per_leaf": 2,
    "host_rate_bps": 10**10,
    "core_rate_bps": 4 * 10**10,
}
DELAYS = {"link_delay_ns": 200, "host_delay_ns": 20_000}
"""PIAS's delays: 20.2 us for a host's link, 0.2 us for a link between switches."""


def leaf_spine(**changes: Any) -> Topology:
    return topologies.build("leaf-spine", **(LEAF_SPINE | DELAYS | changes))


def pipeline_us(rates_bps: Sequence[float], delays_ns: Sequence[float], size_bytes: int) -> float:
    """Return the same by following every segment over every link. A link sends a segment once it
    has all of it."""
    frames = [MSS_BYTES] * (size_bytes // MSS_BYTES) + [size_bytes % MSS_BYTES] * (size_bytes % MSS_BYTES > 0)
    free_us = [0.0] * len(rates_bps)
    done_us = 0.0
    for payload in frames:
        at_us = 0.0
        for i, (rate_bps, delay_ns) in enumerate(zip(rates_bps, delays_ns, strict=True)):
            free_us[i] = max(free_us[i], at_us) + (payload + FRAME_BYTES - MSS_BYTES) * 8e6 / rate_bps
            at_us = free_us[i] + delay_ns / 1000
        done_us = at_us
    return done_us


@given(size_bytes=st.integers(64, 200_000))
def test_ideal__equals_every_segment_followed_over_every_link(size_bytes: int) -> None:
    same_leaf = pipeline_us([1e10, 1e10], [20_200, 20_200], size_bytes)
    across = pipeline_us([1e10, 4e10, 4e10, 1e10], [20_200, 200, 200, 20_200], size_bytes)
    assert ideal_fct_us(leaf_spine(), "h1", "h2", size_bytes) == pytest.approx(same_leaf, rel=1e-12)
    assert ideal_fct_us(leaf_spine(), "h1", "h6", size_bytes) == pytest.approx(across, rel=1e-12)


def test_ideal__a_slow_core_paces() -> None:
    topology = leaf_spine(core_rate_bps=10**9)
    slow = [
        b - a for a, b in pairwise(ideal_fct_us(topology, "h1", "h6", n * MSS_BYTES) for n in (10, 11, 12))
    ]
    assert slow == pytest.approx([FRAME_BYTES * 8e6 / 1e9] * 2)


def test_ideal__one_segment_crosses_two_links() -> None:
    assert ideal_fct_us(star(), "h2", "h1", MSS_BYTES) == pytest.approx(2 * FRAME_BYTES * 8e6 / RATE_BPS)


def test_ideal__the_senders_own_link_has_its_delay() -> None:
    near = ideal_fct_us(leaf_spine(link_delay_ns=0, host_delay_ns=0), "h1", "h2", 1000)
    assert ideal_fct_us(leaf_spine(link_delay_ns=0), "h1", "h2", 1000) == pytest.approx(near + 2 * 20)


def test_ideal_times__columns_equal_single_flows() -> None:
    topology, rng = leaf_spine(), np.random.default_rng(1)
    src, size_bytes = rng.integers(6, size=50), rng.integers(64, 10**7, size=50)
    dst = (src + rng.integers(1, 6, size=50)) % 6
    many = IdealTimes(topology).of(src, dst, size_bytes)
    one = [
        ideal_fct_us(topology, f"h{s + 1}", f"h{d + 1}", int(b))
        for s, d, b in zip(src, dst, size_bytes, strict=True)
    ]
    assert many.tolist() == one


@pytest.mark.timing
def test_ideal_times__a_thousand_hosts_take_no_time() -> None:
    topology = leaf_spine(leaves=32, spines=16, hosts_per_leaf=32)
    began = time.process_time()
    IdealTimes(topology)
    assert time.process_time() - began < 1.0
