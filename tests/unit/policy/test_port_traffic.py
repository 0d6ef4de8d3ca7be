# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sluice.policy import tags
from sluice.policy.thresholds.adaptation import PortCounters
from sluice.policy.thresholds.port_traffic import (
    EDGES,
    PortTraffic,
    flow_sizes,
    load_of_tags,
    load_up_to,
    payload_up_to,
)
from tests.unit.policy.port_counters import counted

RATE_BPS = 10**9


def traffic(counters: PortCounters, seconds: float = 1.0) -> PortTraffic:
    return PortTraffic(
        counters.packets,
        counters.bytes,
        counters.completed.astype(float),
        np.asarray([seconds]),
        np.asarray([float(RATE_BPS)]),
    )


def heavy_tailed(n: int, seed: int = 1) -> npt.NDArray[Any]:
    """Return a bounded Pareto distribution, 1 KB to 50 MB."""
    uniform = np.random.default_rng(seed).random(n)
    return np.asarray(1_000 * (1 - uniform * (1 - (1 / 50_000) ** 1.1)) ** (-1 / 1.1), int)


def test_payload_up_to__is_the_sum_of_what_each_flow_sent_up_to_the_edge() -> None:
    sizes = heavy_tailed(3_000)
    measured = payload_up_to(traffic(counted(sizes)))[0]
    expected = np.minimum(sizes[:, None], EDGES[None, :]).sum(axis=0)
    expected[-1] = sizes.sum()
    wide = EDGES >= 10_000  # below, buckets are narrower than packets
    assert measured[wide] == pytest.approx(expected[wide], rel=0.02)
    assert measured[~wide] == pytest.approx(expected[~wide], rel=0.15)


def test_payload_up_to__acks_of_the_other_direction_are_none() -> None:
    sizes = heavy_tailed(1_000)
    without = payload_up_to(traffic(counted(sizes)))
    assert payload_up_to(traffic(counted(sizes, acks=100_000))) == pytest.approx(without)


def test_flow_sizes__by_fins_they_are_the_histogram() -> None:
    sizes = heavy_tailed(2_000)
    counters = counted(sizes)
    assert (flow_sizes(traffic(counters)).ends[0] == counters.completed[0].sum(axis=0)).all()


def test_flow_sizes__without_fins_the_bytes_tell_how_many_are_longer() -> None:
    """Flows counted at an edge end around it, on both sides. A flow below a packet counts in part."""
    sizes = heavy_tailed(20_000)
    found = flow_sizes(traffic(counted(sizes, fins=False)))
    assert found.flows[0] == pytest.approx(np.minimum(sizes, 1448).sum() / 1448, rel=0.01)
    for edge in (10_000, 100_000, 1_000_000):
        around = found.ends[0][found.size_bytes[0] == edge].sum()
        longer = found.ends[0][found.size_bytes[0] > edge].sum() + around / 2
        assert longer == pytest.approx((sizes > edge).sum(), rel=0.15)


def test_flow_sizes__a_few_fins_among_many_flows_without_are_not_believed() -> None:
    """Persistent connections, of which one is closed."""
    mixed = counted([10_000] * 500, fins=False)
    mixed.completed[0, 0, tags.attained_tag(10_000) - tags.ATTAINED_FIRST] = 3
    assert flow_sizes(traffic(mixed)).flows[0] == pytest.approx(500, rel=0.05)


def test_flow_sizes__two_sizes_without_fins() -> None:
    found = flow_sizes(traffic(counted([10_000] * 80 + [1_000_000] * 20, fins=False)))
    big = found.size_bytes[0] >= 500_000
    assert found.ends[0][big].sum() == pytest.approx(20, rel=0.03)
    small = (found.size_bytes[0] >= 7_000) & (found.size_bytes[0] <= 14_000)
    assert found.ends[0][small].sum() == pytest.approx(80, rel=0.1)


def test_load_up_to__the_whole_load_counts_headers_and_acks() -> None:
    counters = counted(heavy_tailed(500), acks=1_000)
    load = load_up_to(traffic(counters, seconds=2.0))[0]
    assert load[-1] == pytest.approx(counters.bytes.sum() * 8 / 2 / RATE_BPS)
    assert (np.diff(load) >= 0).all()


def test_load_up_to__a_port_that_counts_only_fins_has_the_load_of_the_sizes() -> None:
    sizes = heavy_tailed(5_000)
    counters = counted(sizes)
    whole = load_up_to(traffic(counters))[0]
    counters.bytes[:] = counters.packets[:] = 0
    by_fins = load_up_to(traffic(counters))[0]
    assert by_fins[EDGES >= 10_000] == pytest.approx(whole[EDGES >= 10_000], rel=0.2)


def test_load_of_tags__a_second_at_half_the_rate() -> None:
    counters = counted([])
    counters.bytes[0, tags.URGENCY_FIRST] = RATE_BPS // 16
    load = load_of_tags(traffic(counters))[0]
    assert load[tags.URGENCY_FIRST] == pytest.approx(0.5)
    assert load.sum() == pytest.approx(0.5)
