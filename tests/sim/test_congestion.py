# SPDX-License-Identifier: Apache-2.0
"""DCTCP, CUBIC and the echo of marks against the papers' analyses: windows, queues and shares."""

from itertools import pairwise
from math import sqrt

import numpy as np
import pytest
from scipy.stats import t as student

from sluice.dataplane.windows import Window
from sluice.simulator import _fabric as core
from sluice.simulator._fabric import MarkBy
from tests.sim import kit
from tests.sim.bottleneck import (
    FULL,
    RATE,
    TRIP,
    TRIP_IN_ALL,
    bottleneck,
    forever,
    goodput_bps,
    queue_samples,
)
from tests.sim.kit import FRAME, GBIT, HEADER, MS, PAYLOAD, US, Link, S, serialisation

# -- DCTCP (Alizadeh et al., SIGCOMM 2010, section 3.3; "Analysis of DCTCP", SIGMETRICS 2011)


def falls_of(windows: list[Window]) -> list[tuple[int, int]]:
    """Return (from, to) of each fall of a sawtooth.

    A reduction takes a round trip (RFC 6937), during which marks continue. So one fall may be two
    cuts in successive windows.
    """
    falls, last = [], None
    for i, (before, w) in enumerate(pairwise(windows)):
        if w.cuts == before.cuts:
            continue
        if last is not None and i - last <= 2:
            falls[-1] = (falls[-1][0], w.cut_to)
        else:
            falls.append((w.cut_from, w.cut_to))
        last = i
    return falls


@pytest.mark.parametrize(("flows", "threshold"), [(1, 20), (1, 65), (4, 60)])
def test_dctcp_sawtooth(flows: int, threshold: int) -> None:
    """A window falls from its peak W* = (C RTT + K) / N by D = sqrt(2 W*) / 2, and grows back in D round trips.

    So a period is D round trips and those of the fall. A fall of two cuts goes further. alpha is the share of marked
    packets: about sqrt(2 / W*).
    """
    net = bottleneck(flows, TRIP, kit.transport(), more={"mark_bytes": threshold * FRAME})
    for source in range(flows):
        forever(net, source, flows, source * US)
    net.run(60 * MS)
    peak = (TRIP_IN_ALL / FULL + threshold) / flows
    swing = sqrt(2 * peak) / 2
    for windows in net.trace(360 * MS, TRIP // 2).values():
        falls = falls_of(windows)
        alpha = np.mean([w.alpha_q20 / 2**20 for w in windows])
        marked = sum(w.marked for w in windows) / sum(w.acked for w in windows)
        assert np.mean([high for high, _ in falls]) == pytest.approx(peak, rel=0.12 if flows > 1 else 0.02)
        assert np.mean([high - low for high, low in falls]) == pytest.approx(swing, rel=0.3)
        assert swing < len(windows) / len(falls) < swing + 6
        assert 0.6 * sqrt(2 / peak) < alpha < 1.1 * sqrt(2 / peak)
        assert alpha == pytest.approx(marked, rel=0.05)


@pytest.mark.parametrize("threshold", [20, 65])
def test_dctcp_keeps_the_queue_near_k_and_the_link_busy(threshold: int) -> None:
    """The queue of one flow stays below K + 3 and swings by about D = sqrt(2 (C RTT + K)) / 2. It never empties if
    K > C RTT / 7 (equation 13 there)."""
    net = bottleneck(1, TRIP, kit.transport(), more={"mark_bytes": threshold * FRAME})
    forever(net, 0, 1)
    net.run(60 * MS)
    queue = queue_samples(net, 120 * MS, 5 * US, 1)
    swing = sqrt(2 * (TRIP_IN_ALL / FULL + threshold)) / 2
    assert threshold <= queue.max() <= threshold + 3
    assert 0.8 * swing < queue.max() - queue.min() < 1.8 * swing
    assert goodput_bps(net, 1, 20 * MS)[0] == pytest.approx(RATE * PAYLOAD / FRAME, rel=0.005)


@pytest.mark.parametrize("control", ["dctcp", "ucp", "d2tcp", "mcp", "datcp", "reno", "cubic"])
def test_equal_flows_get_equal_shares(control: str) -> None:
    """Without deadlines, Jain's index (sum x)^2 / (n sum x^2) is near 1, and the link is full."""
    flows, halves, by_marks = 8, control in ("reno", "datcp"), control not in ("reno", "cubic")
    marking = {"mark_bytes": (100 if halves else 40) * FRAME}
    port = {"more": marking} if by_marks else {"buffer_bytes": 100 * FRAME}
    echo = core.Echo.exact if by_marks else core.Echo.none
    settings = kit.transport(control=getattr(core.Control, control), echo=echo, rto_min_ps=MS)
    net = bottleneck(flows, TRIP, settings, **port)
    for source in range(flows):
        forever(net, source, flows, source * MS)
    net.run(100 * MS)
    rates = goodput_bps(net, flows, 200 * MS)
    assert rates.sum() == pytest.approx(RATE * PAYLOAD / FRAME, rel=0.06 if halves else 0.01)
    assert rates.sum() ** 2 / (flows * (rates**2).sum()) > 0.95


def test_cubic_fills_the_buffer_and_recovers_without_timeouts() -> None:
    """CUBIC reacts to losses, so the queue fills the buffer repeatedly. A loss reduces the window to 0.7."""
    settings = kit.transport(control=core.Control.cubic, echo=core.Echo.none, rto_min_ps=MS)
    net = bottleneck(1, TRIP, settings, buffer_bytes=100 * FRAME)
    forever(net, 0, 1)
    net.run(200 * MS)
    before = int(net.fabric.unfinished()["timeouts"][0])
    trace = net.trace(1200 * MS, TRIP // 2)[0]
    falls = [w.cut_to / w.cut_from for a, w in pairwise(trace) if w.cuts > a.cuts]
    assert len(falls) >= 3
    assert falls == pytest.approx([0.7] * len(falls), abs=0.01)
    assert net.port(net.towards[1]).most_bytes > 99 * FRAME
    assert int(net.fabric.unfinished()["timeouts"][0]) == before
    assert goodput_bps(net, 1, 100 * MS)[0] > 0.97 * RATE * PAYLOAD / FRAME


def test_cubic_leaves_slow_start_when_the_train_of_acks_is_half_a_round_trip_long() -> None:
    """HyStart: each ACK of the train adds a packet, so the window ends slightly above what the path holds."""
    trip = 10 * MS
    more = {
        "initial_window": 16,
        "max_window": 10**5,
    }  # from 16 packets on, a round begins with a window's first ACK
    settings = kit.transport(control=core.Control.cubic, echo=core.Echo.none, rto_initial_ps=S, **more)
    net = bottleneck(1, trip, settings, buffer_bytes=6000 * FRAME)
    forever(net, 0, 1)
    windows = [w.cwnd for w in net.trace(200 * MS, trip // 2)[0]]
    path = trip / FULL
    assert net.port(net.towards[1]).dropped == 0
    assert 0.9 * path < windows[-1] < 1.6 * path
    assert max(after / before for before, after in pairwise(windows[-3:])) < 1.2, "slow start is over"


def test_cubic_leaves_slow_start_when_packets_are_late() -> None:
    """HyStart, with ACKs too far apart for a train: slow start ends after a round that waited for 4 ms."""
    rate = 5 * GBIT // 1000
    settings = kit.transport(
        control=core.Control.cubic, echo=core.Echo.none, packets_per_ack=2, rto_min_ps=S, rto_initial_ps=S
    )
    net = kit.single(
        2, settings, up=Link(GBIT, 5 * MS), down=Link(rate, 5 * MS, buffer_bytes=60 * FRAME), near_ps=5 * MS
    )
    forever(net, 0, 1)
    net.run(500 * MS)
    assert net.port(net.towards[1]).dropped == 0
    assert 16 <= net.fabric.senders()["cwnd"][0] < 60


# -- marks and their echo


@pytest.mark.parametrize("per_ack", [1, 2, 4])
def test_the_exact_echo_tells_of_every_mark_once(per_ack: int) -> None:
    """The sender counts as many marked packets as the port marked, also with delayed ACKs (RFC
    8257, section 3.2).

    A burst of single packets of other flows makes the flow wait for a while.
    """
    settings = kit.transport(packets_per_ack=per_ack, tags_deadlines=True, max_window=60)
    more = {"mark_bytes": 3 * FRAME, "mark_by": MarkBy.queue}
    net = bottleneck(11, TRIP, settings, more=more)
    net.fabric.set_queue_of(net.towards[11], kit.priority_map())
    forever(net, 0, 11, **kit.as_priority(7, 0))
    for i in range(60):
        start = 10 * MS + i * 3 * FULL // 2
        net.flow(1 + i % 10, 11, PAYLOAD, start, **kit.as_priority(0, start))
    windows = net.trace(60 * MS, TRIP // 4)[0]
    marked = net.port(net.towards[11]).marked
    assert marked > 20
    assert any(0 < w.marked < w.acked for w in windows)
    assert sum(w.marked for w in windows) == marked
    assert windows[-1].marked == 0


@pytest.mark.parametrize(("echo", "control"), [("standard", "reno"), ("exact", "dctcp")])
def test_marks_in_one_window_cut_it_once(echo: str, control: str) -> None:
    """Both echoes cause one cut a window: RFC 3168's, which lasts until CWR, and RFC 8257's, which is each mark.

    A flow sends bursts of 40 packets, one each round trip. During the tenth burst, four packets of another flow make
    it wait.
    """
    settings = kit.transport(
        echo=getattr(core.Echo, echo),
        control=getattr(core.Control, control),
        max_window=40,
        initial_window=40,
    )
    net = kit.single(
        3, settings, up=Link(RATE, TRIP // 4), down=Link(RATE, TRIP // 4, more={"mark_bytes": 2 * FRAME})
    )
    burst = 10 * (TRIP + 2 * FULL + 2 * serialisation(HEADER, RATE))
    forever(net, 0, 2)
    net.flow(1, 2, 4 * PAYLOAD, burst + 15 * FULL)
    trace = net.trace(40 * MS, TRIP // 4)[0]
    marked = net.port(net.towards[2]).marked
    assert 5 < marked < 30
    assert trace[-1].cuts == 1
    told = sum(w.marked for w in trace)
    if echo == "standard":
        assert told > marked
        assert (trace[-1].cut_from, trace[-1].cut_to) == (40, 20)
    else:
        assert told <= marked
        cut = next(w for w in trace if w.cuts)
        assert cut.cut_to == round(40 * (1 - cut.cut_penalty_q20 / 2**21))


# ── Queueing theory: mean waits and slowdowns of a single link under Poisson arrivals ──────────


UP_BPS = 10_000 * GBIT
"""The rate of hosts' links: so high that packets wait only at the port under test."""


def waits(load: float, count: int, frames: kit.Array, priorities: kit.Array) -> kit.Array:
    """Return how long each of many one-packet flows of these frame sizes waited for its service,
    in picoseconds."""
    hosts = 200
    rng = np.random.default_rng(1)
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


def test_two_priorities_without_preemption() -> None:
    """Cobham, 1954: W_1 = R / (1 - rho_1), W_2 = R / ((1 - rho_1) (1 - rho_1 - rho_2)), R = sum(lambda_i
    E[S_i^2]) / 2."""
    count, load, of_first = 150_000, 0.6, 0.4
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


def test_long_flows_under_dctcp_share_the_processor() -> None:
    """M/G/1 with processor sharing: the mean slowdown is 1 / (1 - rho) for any sizes. DCTCP is
    within a fifth of it, for flows of many round trips."""
    count, hosts, load = 1000, 100, 0.7
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
