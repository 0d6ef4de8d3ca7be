# SPDX-License-Identifier: Apache-2.0
"""Marks against their definitions: which packets are marked, and with what probability."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from sluice.runs.files import scenario_with
from sluice.simulator import _fabric as core
from sluice.simulator._fabric import MarkBy
from sluice.simulator.run import Simulation
from sluice.simulator.taps import Taps
from sluice.topologies import build_topology
from tests.sim import kit
from tests.sim.crossing import Definition, cross, random_packets
from tests.sim.kit import FRAME, GBIT, HEADER, NS, PAYLOAD, US, Link, S, serialisation
from tests.sim.test_disciplines import highest, seeds


@seeds
@pytest.mark.parametrize("threshold", [1, 2 * FRAME, 8 * FRAME])
def test_marked_is_who_finds_more_than_k_at_the_port(seed: int, threshold: int) -> None:
    """DCTCP marks a packet that finds B > K bytes waiting in all queues. The packet on the link does not count."""
    packets = random_packets(seed, 150, 75 * US)

    def marks(_arriving: int, waiting: list[int]) -> bool:
        return sum(packets[i].frame_bytes for i in waiting) > threshold

    fate = cross(packets, Link(more={"mark_bytes": threshold}))
    assert 10 < sum(fate.marked) < 148
    assert fate == Definition(packets, 10 * GBIT, highest(packets), marks=marks).run()


@seeds
def test_marked_is_who_finds_more_than_k_in_its_queue(seed: int) -> None:
    packets = random_packets(seed, 150, 60 * US)

    def marks(arriving: int, waiting: list[int]) -> bool:
        return (
            sum(packets[i].frame_bytes for i in waiting if packets[i].priority == packets[arriving].priority)
            > FRAME
        )

    fate = cross(packets, Link(more={"mark_bytes": FRAME, "mark_by": MarkBy.queue}))
    assert 10 < sum(fate.marked) < 140
    assert fate == Definition(packets, 10 * GBIT, highest(packets), marks=marks).run()


def test_a_packet_that_is_dropped_is_not_marked() -> None:
    packets = random_packets(1, 150, 40 * US)
    fate = cross(packets, Link(buffer_bytes=6 * FRAME, more={"mark_bytes": 1}))
    assert fate.served_ps.count(None) > 20
    assert not any(
        marked for marked, served in zip(fate.marked, fate.served_ps, strict=True) if served is None
    )


def poisson_port(
    load: float,
    count: int,
    port: Link,
    *,
    seed: int = 3,
    frame: int = FRAME,
    echo: core.Echo = core.Echo.exact,
) -> tuple[kit.Array, kit.Array]:
    """Send packets at random times to one port. Return the backlog that each found, and whether it
    was marked."""
    hosts = 64
    net = kit.single(hosts + 1, kit.transport(echo=echo), up=Link(1000 * GBIT, 0), down=port)
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(serialisation(frame, port.bps) / load, count)
    start = np.cumsum(np.maximum(gaps, 1)).astype(np.int64)
    net.add(
        bytes=[frame - HEADER] * count, start_ps=start, source=np.arange(count) % hosts, sink=[hosts] * count
    )
    found, marked, before = [], [], 0
    for arrival in (start + serialisation(frame, 1000 * GBIT)).tolist():
        net.run(arrival - 1)
        found.append(net.port(net.towards[hosts]).waiting_bytes)
        net.run(arrival)
        numbers = net.port(net.towards[hosts])
        marked.append(numbers.marked - before)
        before = numbers.marked
    return np.array(found), np.array(marked)


def test_the_ramp() -> None:
    """RED without an average: P(mark) is 0 below min, 1 above max, and (B - min) / (max - min) between.

    The test is chi-square over the backlogs that occur, at 1 in 1000.
    """
    low, high = 2 * FRAME, 12 * FRAME
    found, marked = poisson_port(0.93, 15_000, Link(more={"mark_bytes": low, "mark_max_bytes": high}))
    assert not marked[found <= low].any()
    assert marked[found >= high].all()
    assert (found >= high).sum() > 100
    statistic, bins = 0.0, 0
    for backlog in np.unique(found[(found > low) & (found < high)]):
        drawn = marked[found == backlog]
        p = (backlog - low) / (high - low)
        if len(drawn) * min(p, 1 - p) < 10:
            continue
        statistic += (drawn.sum() - len(drawn) * p) ** 2 / (len(drawn) * p * (1 - p))
        bins += 1
    assert bins >= 6
    assert statistic < chi2.ppf(0.999, bins)


def test_packets_that_take_no_marks_get_none() -> None:
    _, marked = poisson_port(0.93, 2000, Link(more={"mark_bytes": 1}), echo=core.Echo.none)
    assert not marked.any()


@pytest.mark.parametrize(("load", "share"), [(0.90, 0.0), (0.94, 0.0), (0.97, 1.0), (0.999, 1.0)])
def test_a_phantom_queue_marks_before_any_queue_stands(load: float, share: float) -> None:
    """HULL: a queue drained at 0.95 of the link's rate grows if the link carries more, although no packet waits."""
    hosts, count = 16, 3000
    more = {"phantom_rate_bps": 95 * GBIT // 10, "phantom_mark_bytes": 3 * FRAME}
    net = kit.single(hosts + 1, up=Link(1000 * GBIT, 0), down=Link(more=more))
    spacing = round(serialisation(FRAME, 10 * GBIT) / load)
    start = np.arange(count) * spacing
    net.add(bytes=[PAYLOAD] * count, start_ps=start, source=np.arange(count) % hosts, sink=[hosts] * count)
    net.finish()
    numbers = net.port(net.towards[hosts])
    assert numbers.most_bytes <= FRAME
    assert numbers.marked / count == pytest.approx(share, abs=0.08)


def test_a_phantom_queue_grows_by_what_is_sent_beyond_its_rate() -> None:
    """A threshold of t bytes is passed after t / (load - 0.95) bytes: here, at full load, 3 frames after 60 packets."""
    hosts, count = 16, 200
    more = {"phantom_rate_bps": 95 * GBIT // 10, "phantom_mark_bytes": 3 * FRAME}
    net = kit.single(hosts + 1, up=Link(1000 * GBIT, 0), down=Link(more=more))
    start = np.arange(count) * (serialisation(FRAME, 10 * GBIT) + NS)
    net.add(bytes=[PAYLOAD] * count, start_ps=start, source=np.arange(count) % hosts, sink=[hosts] * count)
    while not net.port(net.towards[hosts]).marked:
        assert not net.run(S, 1)
    assert net.port(net.towards[hosts]).packets == pytest.approx(60, abs=4)


@seeds
def test_marked_is_who_finds_more_than_k_ahead_of_it(seed: int) -> None:
    packets = random_packets(seed, 150, 60 * US)

    def marks(arriving: int, waiting: list[int]) -> bool:
        ahead = (i for i in waiting if packets[i].priority <= packets[arriving].priority)
        return sum(packets[i].frame_bytes for i in ahead) > 2 * FRAME

    fate = cross(packets, Link(more={"mark_bytes": 2 * FRAME, "mark_by": MarkBy.ahead}))
    assert 10 < sum(fate.marked) < 140
    assert fate == Definition(packets, 10 * GBIT, highest(packets), marks=marks).run()


@pytest.mark.parametrize(("mark_by", "marked"), [("port", True), ("queue", False), ("ahead", False)])
def test_the_scenario_says_whether_what_waits_in_another_queue_marks(mark_by: str, marked: bool) -> None:
    """Two flows keep up to K bytes in the lower queue, and packets of other flows find them there."""
    long = {"to": "h1", "bytes": "300KB"}
    document = {
        "name": "marks",
        "fabric": {"topology": "single", "hosts": 4, "host_rate": "80Mbit"},
        "scheme": {
            "name": "pias",
            "queues": 2,
            "thresholds": ["10KB"],
            "mark_at": "20pkt",
            "mark_by": mark_by,
        },
        "transport": {"connections": "persistent", "max_window": 10, "initial_window": 10},
        "workload": {
            "flow": [
                {"from": "h2", **long},
                {"from": "h3", **long},
                *({"from": "h4", "to": "h1", "bytes": "8KB", "start": f"{20 + n}ms"} for n in range(5)),
            ]
        },
    }
    scenario, *_ = scenario_with(document)
    simulation = Simulation(scenario, build_topology(scenario), Taps(flows=lambda columns: None))
    simulation.run()
    assert (simulation.fabric.port_statistics()[:, 2].sum() > 0) == marked
