# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from policy.errors import FieldError
from policy.graph import Port, Topology, host, switch
from policy.workload import (
    FRAME_BYTES,
    WIRE_PER_PAYLOAD,
    Deadlines,
    Mix,
    MixPart,
    Workload,
    by_source,
    ideal_fct_us,
    parse_cdf,
    schedule,
)

RATE = 100_000_000
WORKLOADS = Path(__file__).parents[3] / "experiments" / "workloads"
PAPER_MIX = Mix((MixPart(10_000, 0.8, ("h3",)), MixPart(1_000_000, 0.2, ("h2", "h4"))))


def star(hosts=4):
    ports = tuple(Port("s1", i, f"h{i}", 0, RATE, edge=True) for i in range(1, hosts + 1))
    return Topology("single", tuple(host(i) for i in range(1, hosts + 1)), (switch(1),), ports)


def workload(**changes):
    values = {
        "sizes": PAPER_MIX,
        "pattern": "many-to-one",
        "to": "h1",
        "load": 0.8,
        "flows": 5000,
        "scale": 1.0,
    }
    return Workload(**(values | changes))


def draw(load, seed=1):
    return schedule(load, star(), np.random.default_rng(seed), "run")


@pytest.mark.parametrize(("name", "mean_bytes"), [("web-search", 1_711_250), ("data-mining", 12.66e6)])
def test_parse_cdf__published_means(name, mean_bytes):
    cdf = parse_cdf(name, (WORKLOADS / f"{name}.cdf").read_text())
    assert cdf.mean_bytes == pytest.approx(mean_bytes, rel=0.005)
    assert cdf.draw(np.random.default_rng(1), 400_000).mean() == pytest.approx(mean_bytes, rel=0.05)


def test_parse_cdf__percent_equals_fractions():
    assert parse_cdf("x", "1 0\n5 50\n9 100").cumulative == parse_cdf("x", "1 0\n5 .5\n9 1").cumulative


@pytest.mark.parametrize(
    "text", ["", "1 0", "1 0\n2 0.5", "1 0\n2 0.9\n3 0.5\n4 1", "2 0\n1 1", "1 zero\n2 1", "1 0 3\n2 1"]
)
def test_parse_cdf__bad_tables(text):
    with pytest.raises(FieldError):
        parse_cdf("bad.cdf", text)


def test_schedule__same_seed_same_flows():
    assert draw(workload()) == draw(workload())
    assert draw(workload()) != draw(workload(), seed=2)


def test_schedule__carries_the_load_asked_for():
    flows = draw(workload())
    carried_bps = sum(f.bytes for f in flows) * WIRE_PER_PAYLOAD * 8 / flows[-1].start_s
    assert carried_bps == pytest.approx(0.8 * RATE, rel=0.06)


def test_schedule__shares_and_sources_of_the_mix():
    flows = draw(workload())
    small = [f for f in flows if f.bytes == 10_000]
    assert len(small) / len(flows) == pytest.approx(0.8, abs=0.02)
    assert {f.src for f in small} == {"h3"}
    assert {f.src for f in flows if f.bytes == 1_000_000} == {"h2", "h4"}
    assert {f.dst for f in flows} == {"h1"}


def test_schedule__all_to_all_never_sends_to_itself():
    flows = draw(workload(pattern="all-to-all", to=None, sizes=Mix((MixPart(10_000, 1.0, ()),))))
    assert all(f.src != f.dst for f in flows)
    assert {f.src for f in flows} == {f.dst for f in flows} == {"h1", "h2", "h3", "h4"}


def test_schedule__shift_changes_sizes_half_way():
    shifted = Mix((MixPart(20_000, 1.0, ("h3",)),))
    flows = draw(workload(shift_at=0.5, shifted=shifted))
    assert {f.bytes for f in flows[:2500]} == {10_000, 1_000_000}
    assert {f.bytes for f in flows[2500:]} == {20_000}


def test_schedule__deadlines_for_a_share():
    flows = draw(workload(deadlines=Deadlines(0.3, "uniform", 5_000, 25_000, 0)))
    given = [f.deadline_us for f in flows if f.deadline_us is not None]
    assert len(given) / len(flows) == pytest.approx(0.3, abs=0.03)
    assert min(given) >= 5_000
    assert max(given) <= 25_000


def test_schedule__classes_scale_with_the_sizes():
    flows = draw(workload(scale=0.1))
    assert {f.size_class for f in flows if f.bytes == 1_000} == {"small"}
    assert {f.size_class for f in flows if f.bytes == 100_000} == {"medium"}


def test_ideal_fct__one_segment_crosses_two_links():
    path = star().one_path("h2", "h1")
    assert ideal_fct_us(path, 1448) == pytest.approx(2 * FRAME_BYTES * 8 / 100)


def test_ideal_fct__long_flow_approaches_the_link_rate():
    path = star().one_path("h2", "h1")
    assert ideal_fct_us(path, 10**8) == pytest.approx(10**8 * WIRE_PER_PAYLOAD * 8 / 100, rel=1e-3)


def test_by_source__partitions_the_schedule():
    flows = draw(workload())
    assert sorted(f.id for part in by_source(flows).values() for f in part) == sorted(f.id for f in flows)
