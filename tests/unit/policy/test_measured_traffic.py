# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sluice.policy.thresholds.static import LEAST_FLOWS, MeasuredFlows, measured_traffic, optimal_thresholds
from tests.kit.known import known

RATES = {"h1": 10**7, "h2": 10**7}


def flows(count: int = 1000, seconds: float = 100.0) -> MeasuredFlows:
    """Flows of two sizes, all to h1, spread evenly."""
    began = np.linspace(0, seconds, count)
    sizes = np.where(np.arange(count) % 5, 10_000.0, 400_000.0)
    return MeasuredFlows(sizes, ["h1"] * count, began, began)


def test_measured__sizes_and_load_of_the_receivers_link() -> None:
    traffic = known(measured_traffic(flows(), RATES))
    wire = 800 * (10_000 + 66 * 7) + 200 * (400_000 + 66 * 277)
    assert traffic.load == pytest.approx(wire * 8 / 10**7 / 100)
    share = np.mean(traffic.sizes.at(np.linspace(0, 0.9999, 10_000))[0] < 200_000)
    assert share == pytest.approx(0.8, abs=0.005)


def test_measured__thresholds_separate_the_two_sizes() -> None:
    traffic = known(measured_traffic(flows(), RATES))
    (threshold,) = optimal_thresholds(traffic.sizes, traffic.load, 2)
    assert 10_000 <= threshold < 400_000


def test_measured__two_receivers_share_the_load() -> None:
    one = flows()
    two = replace(one, dst=["h1", "h2"] * 500)
    assert known(measured_traffic(two, RATES)).load == pytest.approx(
        known(measured_traffic(one, RATES)).load / 2, rel=0.01
    )


def test_measured__too_little_says_nothing() -> None:
    assert measured_traffic(flows(LEAST_FLOWS - 1), RATES) is None
    assert measured_traffic(flows(seconds=1.0), RATES) is None
    assert measured_traffic(flows(), {}) is None
