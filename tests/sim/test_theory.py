# SPDX-License-Identifier: Apache-2.0
"""Queueing theory: mean waits and slowdowns of a single link under Poisson arrivals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from tests.sim import kit
from tests.sim.kit import FRAME, GBIT, HEADER, MS, PAYLOAD, US, Link, serialisation

UP_BPS = 10_000 * GBIT
"""The rate of hosts' links: so high that packets wait only at the port under test."""


def waits(load: float, count: int, frames: kit.Array, priorities: kit.Array, *, seed: int = 1) -> kit.Array:
    """Return how long each of many one-packet flows of these frame sizes waited for its service,
    in picoseconds."""
    hosts = 200
    rng = np.random.default_rng(seed)
    service = np.array([serialisation(int(f), 10 * GBIT) for f in (FRAME, 766)])
    mean = np.where(frames == FRAME, service[0], service[1]).mean()
    start = np.cumsum(rng.exponential(mean / load, count)).astype(np.int64)
    net = kit.single(hosts + 1, kit.transport(tags_deadlines=True), up=Link(UP_BPS, 0), down=Link(delay_ps=0))
    net.fabric.set_queue_of(net.towards[hosts], kit.priority_map())
    urgent = [kit.as_priority(int(p), int(s)) for p, s in zip(priorities, start, strict=True)]
    net.add(
        bytes=frames - HEADER,
        start_ps=start,
        source=np.arange(count) % hosts,
        sink=np.full(count, hosts),
        began_ps=[u["began_ps"] for u in urgent],
        deadline_ps=[u["deadline_ps"] for u in urgent],
    )
    fct: kit.Array = net.finish()["fct_ps"]
    own = [serialisation(int(f), UP_BPS) + serialisation(int(f), 10 * GBIT) for f in frames]
    waited: kit.Array = fct - np.array(own)
    return waited


def assert_mean(samples: kit.Array, expected: float) -> None:
    """The expected mean is in the 99.9 % confidence interval of batch means, which is less than 6 % wide."""
    batches = np.array([batch.mean() for batch in np.array_split(samples, 20)])
    half = student.ppf(0.9995, 19) * batches.std(ddof=1) / np.sqrt(20)
    assert half < 0.06 * expected
    assert abs(batches.mean() - expected) < half


@pytest.mark.parametrize(("load", "count"), [(0.3, 60_000), (0.6, 80_000), (0.8, 500_000)])
def test_m_d_1(load: float, count: int) -> None:
    """Mean wait = rho / (2 (1 - rho)) * S (Pollaczek and Khinchine, constant service)."""
    service = serialisation(FRAME, 10 * GBIT)
    samples = waits(load, count, np.full(count, FRAME), np.zeros(count))
    assert_mean(samples, load / (2 * (1 - load)) * service)


def test_two_priorities_without_preemption() -> None:
    """Cobham, 1954: W_1 = R / (1 - rho_1), W_2 = R / ((1 - rho_1) (1 - rho_1 - rho_2)), R = sum(lambda_i
    E[S_i^2]) / 2."""
    count, load, of_first = 400_000, 0.75, 0.4
    rng = np.random.default_rng(5)
    first = rng.random(count) < of_first
    frames = np.where(first, 766, FRAME)
    service = np.where(first, serialisation(766, 10 * GBIT), serialisation(FRAME, 10 * GBIT)).astype(float)
    rate = load / service.mean()
    residual = rate * (service**2).mean() / 2
    rho_1 = rate * first.mean() * service[first].mean()
    samples = waits(load, count, frames, np.where(first, 0, 3))
    assert_mean(samples[first], residual / (1 - rho_1))
    assert_mean(samples[~first], residual / ((1 - rho_1) * (1 - load)))


@pytest.mark.parametrize("load", [0.4, 0.7])
def test_long_flows_under_dctcp_share_the_processor(load: float) -> None:
    """M/G/1 with processor sharing: the mean slowdown is 1 / (1 - rho) for any sizes. DCTCP is
    within a fifth of it, for flows of many round trips."""
    count, hosts = 1500, 100
    rng = np.random.default_rng(11)
    size = rng.choice([1_000_000, 3_000_000], count, p=[0.8, 0.2])
    packets = size / PAYLOAD
    service = packets * serialisation(FRAME, 10 * GBIT)
    start = np.cumsum(rng.exponential(service.mean() / load, count)).astype(np.int64)
    down = Link(10 * GBIT, 5 * US, more={"mark_bytes": 30 * FRAME})
    net = kit.single(hosts + 1, kit.transport(initial_window=20), up=Link(10 * GBIT, 5 * US), down=down)
    net.add(bytes=size, start_ps=start, source=np.arange(count) % hosts, sink=np.full(count, hosts))
    result = net.finish()
    slowdown = result["fct_ps"] / (service + 10 * US + serialisation(FRAME, 10 * GBIT))
    assert slowdown[count // 10 :].mean() == pytest.approx(1 / (1 - load), rel=0.2)
    assert not result["timeouts"].any()


def test_the_small_wait_for_the_large_under_one_queue_and_not_under_two() -> None:
    """The purpose of priorities: small flows wait for long ones only if they share a queue."""

    def mean_wait(queue_of: list[int]) -> float:
        net = kit.single(
            12, up=Link(10 * GBIT, US), down=Link(10 * GBIT, US, more={"mark_bytes": 30 * FRAME})
        )
        net.fabric.set_queue_of(net.towards[11], queue_of)
        starts = MS + 50 * US * np.arange(100)
        net.add(
            bytes=[20_000_000] * 2 + [1000] * 100,
            start_ps=[0, 0, *starts],
            source=[0, 1, *(2 + np.arange(100) % 9)],
            sink=[11] * 102,
        )
        return float(net.finish()["fct_ps"][2:].mean())

    by_attained = [0] * 10 + [1] * 52
    alone = 2 * (serialisation(1066, 10 * GBIT) + US)
    assert mean_wait([0] * kit.TAGS) > alone + 20 * serialisation(FRAME, 10 * GBIT)
    assert mean_wait(by_attained) < alone + 1.1 * serialisation(FRAME, 10 * GBIT)
