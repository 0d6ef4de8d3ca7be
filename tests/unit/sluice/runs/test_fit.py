# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest

from sluice.commands.demo import demo_rate
from sluice.policy.workload.scenario import scheduled_flows
from sluice.runs.files import scenario_from_file, scenario_with
from sluice.runs.fit import CPU_GOAL, RATES_BPS, Forwarding, at_rate, cores, free_cores
from sluice.topologies import build_topology


def rate_bps(free_cores: float, packet_us: float) -> int:
    return Forwarding(2, free_cores, packet_us, "in real time").rate_bps()


def test_rate__falls_with_busy_cores_and_with_the_cost_of_a_packet() -> None:
    rates = [rate_bps(free, us) for free, us in ((2, 30), (2, 67), (2, 90), (0.5, 110))]
    assert rates == sorted(set(rates), reverse=True)
    assert set(rates) <= set(RATES_BPS)


def test_rate__stays_within_its_limits() -> None:
    assert rate_bps(64, 1) == RATES_BPS[-1]
    assert rate_bps(0.5, 10_000) == RATES_BPS[0]
    assert 0 < CPU_GOAL < 1


def test_at_rate__the_same_packets_in_other_time() -> None:
    """At half the rate, the same flows start at twice the time, with twice the deadline and twice the ideal FCT."""
    scenario, document, _ = scenario_from_file(Path("demo"))
    slower, *_ = scenario_with(document, **at_rate(document, 2_500_000))
    flows = [
        scheduled_flows(one, build_topology(one), np.random.default_rng(1), "r", until_s=seconds)
        for one, seconds in ((scenario, 5.0), (slower, 10.0))
    ]
    assert len(flows[0]) == len(flows[1]) > 100
    for fast, slow in zip(*flows, strict=True):
        assert (fast.src, fast.dst, fast.bytes) == (slow.src, slow.dst, slow.bytes)
        assert slow.start_s == pytest.approx(2 * fast.start_s)
        assert slow.ideal_us == pytest.approx(2 * fast.ideal_us, rel=0.01), "beside the fixed delays of links"
        assert (slow.deadline_us is None) == (fast.deadline_us is None)
        if slow.deadline_us is not None:
            assert slow.deadline_us == pytest.approx(2 * (fast.deadline_us or 0), rel=0.01)
    assert slower.transport.rto_min_ms == 2 * scenario.transport.rto_min_ms


def test_cores__what_this_process_may_use() -> None:
    assert 0 < free_cores(0.01) <= cores() or cores() < 0.5


def test_demo_rate__names_the_range() -> None:
    assert demo_rate("2.5Mbit") == 2_500_000
    for wrong in ("5", "20Mbit", "fast"):
        with pytest.raises(argparse.ArgumentTypeError):
            demo_rate(wrong)
