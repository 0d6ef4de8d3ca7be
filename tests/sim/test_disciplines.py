# SPDX-License-Identifier: Apache-2.0
"""Queue disciplines against their definitions: the fabric's port and a port in a few lines agree on every packet."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chi2

from sluice.policy.tags import attained_tag
from sluice.simulator import _fabric as core
from sluice.simulator._fabric import MarkBy
from tests.sim import kit
from tests.sim.crossing import Choose, Definition, Packet, cross, random_packets
from tests.sim.kit import FRAME, GBIT, NS, PAYLOAD, US, Link, S, serialisation

seeds = pytest.mark.parametrize("seed", range(2))


def highest(packets: Sequence[Packet]) -> Choose:
    """Choose the packet of the highest priority that arrived first."""
    return lambda waiting, _: min(waiting, key=lambda i: (packets[i].priority, packets[i].arrival_ps))


@seeds
def test_strict_priority(seed: int) -> None:
    """No packet's service begins while one of a higher priority waits, and the link is never idle while one waits."""
    packets = random_packets(seed, 200, 120 * US)
    fate = cross(packets, Link())
    assert fate.served_ps == Definition(packets, 10 * GBIT, highest(packets)).run().served_ps
    served_ps = [served for served in fate.served_ps if served is not None]
    for p, served in zip(packets, served_ps, strict=True):
        for q, other in zip(packets, served_ps, strict=True):
            assert not (q.priority < p.priority and q.arrival_ps < served < other)


@seeds
@pytest.mark.parametrize("buffer_bytes", [FRAME, 5 * FRAME + 1, 20_000])
def test_the_tail_is_dropped_exactly_at_the_buffer(seed: int, buffer_bytes: int) -> None:
    """A packet of L bytes that finds B waiting bytes is dropped if B + L > buffer. The packet on the link does not
    count."""
    packets = random_packets(seed, 150, 60 * US)
    fate = cross(packets, Link(buffer_bytes=buffer_bytes))
    assert fate.served_ps.count(None) > 10
    assert fate.served_ps == Definition(packets, 10 * GBIT, highest(packets), buffer_bytes).run().served_ps


@seeds
def test_shortest_first(seed: int) -> None:
    """pFabric serves the flow with the fewest packets left. If the buffer is full, it drops a packet of the flow with
    the most packets left, or the arriving packet if none has more."""
    packets = random_packets(seed, 150, 60 * US, packets=range(1, 60), full=True)
    to_go = [p.packets for p in packets]

    def most(waiting: list[int], arriving: int) -> int:
        worst = max(waiting, key=lambda i: to_go[i])
        return worst if to_go[worst] > to_go[arriving] else arriving

    fate = cross(
        packets,
        Link(buffer_bytes=10 * FRAME, discipline=kit.discipline(scheduler=core.Scheduler.shortest_first)),
    )
    expected = Definition(
        packets, 10 * GBIT, lambda waiting, _: min(waiting, key=lambda i: to_go[i]), 10 * FRAME, most
    ).run()
    assert fate.served_ps.count(None) > 10
    assert fate.served_ps == expected.served_ps


def test_a_packet_that_never_fits_displaces_nobody() -> None:
    """In a buffer smaller than a frame, the waiting packet stays although the arriving flow has fewer packets left."""
    port = Link(buffer_bytes=1000, discipline=kit.discipline(scheduler=core.Scheduler.shortest_first))
    net = kit.single(4, kit.transport(initial_window=2, rto_initial_ps=S), up=Link(1000 * GBIT, 0), down=port)
    net.add(
        bytes=[900, PAYLOAD + 800, PAYLOAD], start_ps=[0, 10 * NS, 100 * NS], source=[0, 1, 2], sink=[3, 3, 3]
    )
    assert net.run(10 * US)
    assert net.port(net.towards[3]).packets == 2
    assert net.port(net.towards[3]).dropped == 2
    net.fabric.audit()


class ShareDefinition:
    """HTB: each class has a bucket of at most `burst` tokens, which fills at its rate.

    The highest class that waits and has tokens is served, and pays. If none has tokens, the highest class that waits is
    served and does not pay.
    """

    def __init__(self, packets: Sequence[Packet], shares: Sequence[float], bps: int, burst: int) -> None:
        self.packets, self.burst = packets, burst
        self.rate = [
            Fraction(share).limit_denominator(1000) * bps / (8 * S) for share in shares
        ]  # bytes per ps
        self.tokens = [Fraction(burst)] * len(shares)
        self.filled_ps = 0

    def __call__(self, waiting: list[int], now_ps: int) -> int:
        grown = now_ps - self.filled_ps
        self.tokens = [
            min(Fraction(self.burst), t + r * grown) for t, r in zip(self.tokens, self.rate, strict=True)
        ]
        self.filled_ps = now_ps
        classes = sorted({self.packets[i].priority for i in waiting})
        own = [c for c in classes if self.rate[c] and self.tokens[c] >= 0]
        chosen = own[0] if own else classes[0]
        first = next(i for i in waiting if self.packets[i].priority == chosen)
        if own:
            self.tokens[chosen] -= self.packets[first].frame_bytes
        return first


@seeds
def test_shares(seed: int) -> None:
    """Order and times are those of HTB's rule, at rates with whole picoseconds for a byte."""
    of_each = [0.4, 0.1, 0.05, 0, 0.25, 0, 0.1, 0.05]
    packets = random_packets(seed, 250, 200 * US)
    fate = cross(packets, Link(8 * GBIT, discipline=kit.shares(of_each, 2 * FRAME)))
    expected = Definition(packets, 8 * GBIT, ShareDefinition(packets, of_each, 8 * GBIT, 2 * FRAME)).run()
    assert fate.served_ps == expected.served_ps


def burst(discipline: core.Discipline, plans: Sequence[tuple[int, int, int]]) -> list[int]:
    """Return the order in which packets leave a port. Each flow, (packets, priority, start), sends
    all at once."""
    settings = kit.transport(initial_window=5000, tags_deadlines=True, rto_initial_ps=10 * S)
    sink = len(plans)
    net = kit.single(sink + 1, settings, up=Link(1000 * GBIT, 0), down=Link(discipline=discipline))
    net.fabric.set_queue_of(net.towards[sink], kit.priority_map())
    for source, (packets, priority, start_ps) in enumerate(plans):
        net.flow(source, sink, packets * PAYLOAD, start_ps, **kit.as_priority(priority, start_ps))
    left, got = [], np.zeros(sink, int)
    while not net.run(S, 1):
        now = got.copy()
        for columns in (net.fabric.unfinished(), net.results()):
            now[columns["id"].astype(int)] = columns["delivered_bytes"] // PAYLOAD
        left += np.repeat(np.arange(sink), now - got).tolist()
        got = now
    assert got.tolist() == [packets for packets, _, _ in plans]
    return left


@pytest.mark.parametrize("seed", range(2))
def test_flows_with_a_queue_each_are_served_in_turn(seed: int) -> None:
    """DQS: the packets of two backlogged flows of one priority leave alternately. Between priorities the order is
    strict."""
    rng = np.random.default_rng(seed)
    plans = [(int(rng.integers(5, 40)), int(rng.integers(2)), 600 * NS * i) for i in range(10)]
    left = burst(kit.discipline(flow_queues=True, sub_queues=16, release_ns=1000), plans)
    for i in range(10):
        for j in range(i):
            if plans[i][1] == plans[j][1]:
                assert_alternate([f for f in left if f in (i, j)])
    high = [at for at, flow in enumerate(left) if plans[flow][1] == 0]
    assert high == list(range(high[0], high[0] + len(high)))


def assert_alternate(sequence: list[int]) -> None:
    """The flows alternate while both have packets."""
    first = max(sequence.index(flow) for flow in set(sequence))
    last = min(len(sequence) - 1 - sequence[::-1].index(flow) for flow in set(sequence))
    both = sequence[first : last + 1]
    assert len(both) > 4
    assert all(a != b for a, b in pairwise(both))


def test_a_queue_map_acts_on_what_arrives_from_then_on() -> None:
    """The map puts the second flow above the first while the first one's packets wait. These stay where they are."""
    net = kit.single(3, kit.transport(initial_window=100), up=Link(1000 * GBIT, 0), down=Link())
    net.fabric.set_queue_of(net.towards[2], [1] * kit.TAGS)
    net.flow(0, 2, 50 * PAYLOAD)
    net.flow(1, 2, 10 * PAYLOAD, 10 * US)
    net.run(9 * US)
    net.fabric.set_queue_of(net.towards[2], [0] * kit.TAGS)
    result = net.finish()
    frame = serialisation(FRAME, 10 * GBIT)
    assert result["fct_ps"][1] < 12 * frame + 2 * US
    assert result["fct_ps"][0] > 60 * frame


def test_tags_are_counted_as_they_arrive() -> None:
    """Packets, bytes and FINs are counted by tag, and a packet's tag says what its flow had sent before."""
    sizes = [700, 3 * PAYLOAD, 100_000]
    net = kit.single(4, down=Link(more={"count_tags": True}))
    net.add(bytes=sizes, start_ps=[0, 0, 0], source=[0, 1, 2], sink=[3, 3, 3])
    net.finish()
    expected = np.zeros((kit.TAGS, 3), int)
    for size in sizes:
        for number, frame in enumerate(kit.packets_of(size)):
            tag = attained_tag(number * PAYLOAD)
            expected[tag] += [1, frame, number == len(kit.packets_of(size)) - 1]
    assert net.fabric.tag_counters()[net.towards[3]].tolist() == expected.tolist()


def test_tags_of_a_socket_are_those_of_the_last_packet_that_may_leave() -> None:
    """The first window leaves at one time. Later packets leave one by one, with their ACKs."""
    net = kit.single(
        2,
        kit.transport(initial_window=10, tags_bursts=True, max_window=10),
        down=Link(more={"count_tags": True}),
    )
    net.flow(0, 1, 100 * PAYLOAD)
    net.finish()
    by_tag = net.fabric.tag_counters()[net.towards[1]][:, 0].tolist()
    expected = [attained_tag(9 * PAYLOAD)] * 10 + [
        attained_tag(number * PAYLOAD) for number in range(10, 100)
    ]
    assert by_tag == [expected.count(tag) for tag in range(kit.TAGS)]


def room_bytes(buffer_bytes: int, rank: int) -> int:
    """Return what may wait at a rank and below it, by dataplane/laws/drop_order.h."""
    return buffer_bytes if rank == 0 else buffer_bytes - buffer_bytes // 4 - rank * (buffer_bytes // 32)


@seeds
def test_thresholds_drop_the_least_urgent_first(seed: int) -> None:
    """A packet finds room if the buffer has it, and if its priority and those below have not used up theirs."""
    packets, buffer_bytes = random_packets(seed, 200, 60 * US), 20_000

    def is_dropped(waiting: list[int], arriving: int) -> bool:
        packet = packets[arriving]
        below = [i for i in waiting if packets[i].priority >= packet.priority]
        sums = [sum(packets[i].frame_bytes for i in some) + packet.frame_bytes for some in (waiting, below)]
        return sums[0] > buffer_bytes or sums[1] > room_bytes(buffer_bytes, packet.priority)

    port = Link(buffer_bytes=buffer_bytes, more={"drop_order": core.DropOrder.urgency})
    fate = cross(packets, port)
    expected = Definition(packets, 10 * GBIT, highest(packets), buffer_bytes, is_dropped=is_dropped).run()
    assert fate.served_ps == expected.served_ps
    lost = [p.priority for p, served in zip(packets, fate.served_ps, strict=True) if served is None]
    assert len(lost) > 10
    assert lost.count(0) < lost.count(7)


# Marks against their definitions: which packets are marked, and with what probability.


COUNTED: dict[MarkBy, Callable[[Packet, Packet], bool]] = {
    MarkBy.port: lambda _arriving, _waiting: True,
    MarkBy.queue: lambda arriving, waiting: waiting.priority == arriving.priority,
    MarkBy.ahead: lambda arriving, waiting: waiting.priority <= arriving.priority,
}
"""Whether a packet that waits counts for the mark of one that arrives. The packet on the link does not."""


@seeds
@pytest.mark.parametrize(
    ("mark_by", "threshold"),
    [
        *((MarkBy.port, threshold) for threshold in (1, 2 * FRAME, 8 * FRAME)),
        (MarkBy.queue, FRAME),
        (MarkBy.ahead, 2 * FRAME),
    ],
)
def test_marked_is_who_finds_more_than_k(seed: int, mark_by: MarkBy, threshold: int) -> None:
    """DCTCP marks a packet that finds B > K bytes waiting: in all queues, in its own, or in those served before it."""
    packets = random_packets(seed, 150, 75 * US if mark_by == MarkBy.port else 60 * US)

    def marks(arriving: int, waiting: list[int]) -> bool:
        counted = (i for i in waiting if COUNTED[mark_by](packets[arriving], packets[i]))
        return sum(packets[i].frame_bytes for i in counted) > threshold

    fate = cross(packets, Link(more={"mark_bytes": threshold, "mark_by": mark_by}))
    assert 10 < sum(fate.marked) < 148
    assert fate == Definition(packets, 10 * GBIT, highest(packets), marks=marks).run()


def test_a_packet_that_is_dropped_is_not_marked() -> None:
    packets = random_packets(1, 150, 40 * US)
    fate = cross(packets, Link(buffer_bytes=6 * FRAME, more={"mark_bytes": 1}))
    assert fate.served_ps.count(None) > 20
    assert not any(
        marked for marked, served in zip(fate.marked, fate.served_ps, strict=True) if served is None
    )


def poisson_port(count: int, port: Link, echo: core.Echo = core.Echo.exact) -> tuple[kit.Array, kit.Array]:
    """Send full packets at random times to one port, at a load of 0.93. Return the backlog that each found, and whether
    it was marked."""
    hosts = 64
    net = kit.single(hosts + 1, kit.transport(echo=echo), up=Link(1000 * GBIT, 0), down=port)
    rng = np.random.default_rng(3)
    gaps = rng.exponential(serialisation(FRAME, port.bps) / 0.93, count)
    start = np.cumsum(np.maximum(gaps, 1)).astype(np.int64)
    net.add(bytes=[PAYLOAD] * count, start_ps=start, source=np.arange(count) % hosts, sink=[hosts] * count)
    found, marked, before = [], [], 0
    for arrival in (start + serialisation(FRAME, 1000 * GBIT)).tolist():
        net.run(arrival - 1)
        found.append(net.port(net.towards[hosts]).waiting_bytes)
        net.run(arrival)
        numbers = net.port(net.towards[hosts])
        marked.append(numbers.marked - before)
        before = numbers.marked
    return np.array(found), np.array(marked)


@pytest.mark.parametrize("most", [1, 0.2])
def test_the_ramp(most: float) -> None:
    """RED without an average: P(mark) is 0 below min, 1 above max, and most * (B - min) / (max - min) between.

    The test is chi-square over the backlogs that occur, at 1 in 1000.
    """
    low, high = 2 * FRAME, 12 * FRAME
    settings = {"mark_bytes": low, "mark_max_bytes": high, "mark_most_q32": round(most * 2**32)}
    found, marked = poisson_port(15_000, Link(more=settings))
    assert not marked[found <= low].any()
    assert marked[found > high].all()
    assert (found > high).sum() > 100
    statistic, bins = 0.0, 0
    for backlog in np.unique(found[(found > low) & (found < high)]):
        drawn = marked[found == backlog]
        p = most * (backlog - low) / (high - low)
        if len(drawn) * min(p, 1 - p) < 10:
            continue
        statistic += (drawn.sum() - len(drawn) * p) ** 2 / (len(drawn) * p * (1 - p))
        bins += 1
    assert bins >= 6
    assert statistic < chi2.ppf(0.999, bins)


def test_packets_that_take_no_marks_get_none() -> None:
    _, marked = poisson_port(2000, Link(more={"mark_bytes": 1}), core.Echo.none)
    assert not marked.any()


def phantom_port(starts_ps: kit.Array) -> tuple[kit.Net, int]:
    """Return a network and its port with a phantom queue of 0.95 of the rate. A full packet leaves at each time."""
    hosts, count = 16, len(starts_ps)
    more = {"phantom_rate_bps": 95 * GBIT // 10, "phantom_mark_bytes": 3 * FRAME}
    net = kit.single(hosts + 1, up=Link(1000 * GBIT, 0), down=Link(more=more))
    net.add(
        bytes=[PAYLOAD] * count, start_ps=starts_ps, source=np.arange(count) % hosts, sink=[hosts] * count
    )
    return net, net.towards[hosts]


@pytest.mark.parametrize(("load", "share"), [(0.94, 0.0), (0.97, 1.0)])
def test_a_phantom_queue_marks_before_any_queue_stands(load: float, share: float) -> None:
    """HULL: a queue drained at 0.95 of the link's rate grows if the link carries more, although no packet waits."""
    count = 3000
    net, port = phantom_port(np.arange(count) * round(serialisation(FRAME, 10 * GBIT) / load))
    net.finish()
    numbers = net.port(port)
    assert numbers.most_bytes <= FRAME
    assert numbers.marked / count == pytest.approx(share, abs=0.08)


def test_a_phantom_queue_grows_by_what_is_sent_beyond_its_rate() -> None:
    """A threshold of t bytes is passed after t / (load - 0.95) bytes: here, at full load, 3 frames after 60 packets."""
    net, port = phantom_port(np.arange(200) * (serialisation(FRAME, 10 * GBIT) + NS))
    while not net.port(port).marked:
        assert not net.run(S, 1)
    assert net.port(port).packets == pytest.approx(60, abs=4)
