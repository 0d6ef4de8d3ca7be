# SPDX-License-Identifier: Apache-2.0
"""PDQ: what a port's list grants, and flows in closed form: alone, preempted, by deadline, and too late."""

import ctypes
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sluice.simulator import _fabric as core
from tests.sim import kit
from tests.sim.bottleneck import compiled, queue_samples
from tests.sim.kit import FINISHED, FRAME, GBIT, HEADER, KILLED, MS, PAYLOAD, US, Link, serialisation

RATE = 10 * GBIT
DELAY = 5 * US
FULL = serialisation(FRAME, RATE)
ACROSS = 2 * (FULL + DELAY)
"""From a packet's start until it has arrived, through one switch."""
ASKED = 4 * (serialisation(HEADER, RATE) + DELAY)
"""From a flow's start until the answer to its first header."""
TRIP = ACROSS + 2 * (serialisation(HEADER, RATE) + DELAY)


# What a port grants.


class Exchange(ctypes.Structure):
    _fields_ = (
        ("bps", ctypes.c_double),
        ("probing_trips", ctypes.c_double),
        ("deadline", ctypes.c_int64),
        ("left", ctypes.c_int64),
        ("round_trip", ctypes.c_int64),
        ("waits", ctypes.c_bool),
    )


class ListOfFlows:
    """A port's list. It remembers which flows wait, as their senders would."""

    def __init__(self, library: ctypes.CDLL) -> None:
        library.critical_flows.restype = ctypes.c_void_p
        self._library = library
        self._port = ctypes.c_void_p(library.critical_flows())
        self._waits: set[int] = set()

    def ask(
        self,
        number: int,
        trips_left: float = 100,
        now_trips: float = 0,
        *,
        bps: float = RATE,
        deadline: int = 2**62,
        backlog_bits: float = 0,
    ) -> tuple[float, float]:
        """Return the rate that is granted, 0 for a flow that waits, and the round trips until its next probe."""
        given = Exchange(bps, 1, deadline, round(trips_left * TRIP), TRIP, number in self._waits)
        self._library.ask(
            self._port,
            ctypes.c_uint64(number),
            ctypes.byref(given),
            ctypes.c_int64(round(now_trips * TRIP)),
            ctypes.c_double(RATE),
            ctypes.c_double(backlog_bits),
        )
        (self._waits.add if given.waits else self._waits.discard)(number)
        return (0.0 if given.waits else given.bps), given.probing_trips

    def forget(self, number: int) -> None:
        self._library.forget(self._port, ctypes.c_uint64(number))

    def close(self) -> None:
        self._library.close(self._port)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compiled(Path(__file__).with_name("pdq_probe.cpp"), tmp_path_factory.mktemp("pdq"))


@pytest.fixture
def port(library: ctypes.CDLL) -> Iterator[ListOfFlows]:
    made = ListOfFlows(library)
    yield made
    made.close()


def test_port__the_more_critical_flow_gets_the_link_at_once(port: ListOfFlows) -> None:
    """Earlier deadlines first, then shorter flows, then lower numbers."""
    by_criticality: list[Callable[[], tuple[float, float]]] = [
        lambda: port.ask(9, 300),
        lambda: port.ask(8, 200),
        lambda: port.ask(7, 200),
        lambda: port.ask(6, 500, deadline=2 * MS),
        lambda: port.ask(5, 400, deadline=2 * MS),
        lambda: port.ask(4, 600, deadline=MS),
    ]
    for before, ask in pairwise(by_criticality):
        assert ask()[0] == RATE
        assert before()[0] == 0


def test_port__grants_are_what_more_critical_flows_leave(port: ListOfFlows) -> None:
    """Flows ask in any order, for different rates. Once no answer changes, they share the link in order of criticality,
    and the sum of their rates is the link's."""
    rng = np.random.default_rng(1)
    wanted = rng.integers(1, 6, 12) * GBIT
    trips_left = rng.permutation(12) + 10.0
    granted = np.zeros(12)
    for time in range(40):
        for number in rng.permutation(12):
            granted[number], _ = port.ask(
                int(number), trips_left[number], 3.0 * (12 * time + number), bps=float(wanted[number])
            )
    left = RATE
    for number in np.argsort(trips_left):
        assert granted[number] == min(wanted[number], left)
        left -= int(granted[number])
    assert granted.sum() == RATE


@pytest.mark.parametrize(("trips_left", "granted"), [(1.99, RATE), (2.0, 0)])
def test_port__a_flow_that_is_nearly_over_counts_as_gone(
    port: ListOfFlows, trips_left: float, granted: int
) -> None:
    port.ask(0, trips_left)
    assert port.ask(1)[0] == granted


def test_port__counts_flows_as_gone_for_two_round_trips_of_work_in_all(port: ListOfFlows) -> None:
    for number in range(3):
        assert port.ask(number, 0.9)[0] == RATE
    assert port.ask(3, 1.0)[0] == RATE
    assert port.ask(4)[0] == 0


def test_port__one_flow_that_waits_starts_in_a_round_trip(port: ListOfFlows) -> None:
    """The first one takes half the link, the second one could have the other half. A new flow is not held back."""
    port.ask(0, 10)
    for number in (1, 2, 3):
        port.ask(number, 20 + number, bps=RATE / 4)
    port.forget(0)
    assert port.ask(1, 21, 5.0, bps=RATE / 4)[0] == RATE / 4
    assert port.ask(2, 22, 5.9, bps=RATE / 4)[0] == 0
    assert port.ask(4, 15, 5.9, bps=RATE / 4)[0] == RATE / 4
    assert port.ask(2, 22, 6.1, bps=RATE / 4)[0] == RATE / 4


def test_port__lists_two_flows_for_each_that_sends_and_lets_the_later_ones_probe_less(
    port: ListOfFlows,
) -> None:
    for number in range(10):
        assert port.ask(number, 100 + number, bps=RATE / 10) == (RATE / 10, max(1, 0.2 * number))
    for number in range(10, 20):
        assert port.ask(number, 100 + number) == pytest.approx((0, 0.2 * number))
    assert port.ask(20, 120) == pytest.approx((0, 4)), "not listed"
    assert port.ask(21, 119.5) == pytest.approx((0, 4)), "in the place of flow 20"
    assert port.ask(19, 119) == pytest.approx((0, 3.8))


def test_port__the_capacity_shrinks_by_what_waits_every_two_round_trips(port: ListOfFlows) -> None:
    port.ask(0)
    quarter = RATE / 4 * 2 * TRIP / kit.S
    assert port.ask(0, now_trips=2, backlog_bits=quarter)[0] == pytest.approx(0.75 * RATE)
    assert port.ask(0, now_trips=3.9)[0] == pytest.approx(0.75 * RATE)
    assert port.ask(0, now_trips=4, backlog_bits=8 * quarter)[0] == 0
    assert port.ask(0, now_trips=6)[0] == RATE


# Flows.


def network(hosts: int, *, up_bps: int = RATE, **settings: object) -> kit.Net:
    """Hosts on one switch. All ports grant rates."""
    grants = {"grants_rates": True}
    return kit.single(
        hosts,
        kit.transport(control=core.Control.pdq, echo=core.Echo.none, **settings),
        up=Link(up_bps, DELAY, more=grants),
        down=Link(RATE, DELAY, more=grants),
    )


def fct_ps(net: kit.Net) -> list[int]:
    result = net.finish()
    assert set(result["outcome"]) == {FINISHED}
    assert set(result["retransmissions"]) == {0}
    net.assert_nothing_left()
    found: list[int] = result["fct_ps"].tolist()
    return found


@pytest.mark.parametrize("handshake", [False, True])
@pytest.mark.parametrize("packets", [1, 2, 500])
def test_alone__the_first_header_asks_and_the_link_is_full_a_round_trip_later(
    packets: int, handshake: bool
) -> None:
    net = network(2, handshake=handshake)
    net.flow(0, 1, packets * PAYLOAD)
    assert fct_ps(net) == [ASKED + ACROSS + (packets - 1) * FULL]


def test_shorter__preempts_at_once_and_the_longer_one_leaves_no_gap() -> None:
    """The short flow's first data comes as the long one's last leaves. By Early Start the long flow resumes before the
    short one has ended, and delays it by less than a round trip."""
    net = network(3)
    net.flow(0, 2, 400 * PAYLOAD)
    net.flow(1, 2, 100 * PAYLOAD, 100 * FULL)
    net.run(100 * FULL + 3 * TRIP)
    acked = net.sender(0)["acked_bytes"]
    assert queue_samples(net, 100 * FULL + 5 * TRIP, FULL, 2).max() < 3
    assert net.sender(0)["acked_bytes"] == acked
    long, short = fct_ps(net)
    alone = ASKED + ACROSS + 99 * FULL
    assert alone <= short < alone + TRIP
    work = ASKED + ACROSS + 499 * FULL
    assert work <= long < work + TRIP // 2


def test_sizes__flows_that_start_together_end_in_their_order_without_gaps() -> None:
    """The first one that asks is granted the link, and sends for a round trip before a shorter one preempts it."""
    net = network(6)
    packets = [300, 100, 500, 200, 400]
    net.add(bytes=[n * PAYLOAD for n in packets], start_ps=[0] * 5, source=range(5), sink=[5] * 5)
    done = np.array(fct_ps(net))[np.argsort(packets)]
    work = ASKED + ACROSS + (np.cumsum(np.sort(packets)) - 1) * FULL
    assert np.all(work <= done)
    assert done == pytest.approx(work, abs=3 * TRIP)
    assert done[-1] < work[-1] + TRIP
    assert net.port(net.towards[5]).most_bytes < 2 * TRIP / FULL * FRAME


def test_queue__holds_a_few_packets_while_no_flow_is_nearly_over() -> None:
    """Each of ten flows is shorter than those before and preempts them. Rates above the link would fill the queue."""
    net = network(11)
    net.add(
        bytes=[(1000 - 50 * i) * PAYLOAD for i in range(10)],
        start_ps=[20 * i * FULL for i in range(10)],
        source=range(10),
        sink=[10] * 10,
    )
    assert queue_samples(net, 400 * FULL, FULL, 10).max() <= 10
    fct_ps(net)


def test_deadlines__the_earliest_goes_first_whatever_the_sizes() -> None:
    net = network(4)
    net.add(
        bytes=[n * PAYLOAD for n in (300, 200, 100)],
        start_ps=[0, FULL, 2 * FULL],
        deadline_ps=[2 * MS, 3 * MS, 0],
        source=range(3),
        sink=[3] * 3,
    )
    work = ASKED + ACROSS + (np.cumsum([300, 200, 100]) - 1) * FULL
    assert fct_ps(net) == pytest.approx(work, abs=TRIP)


@pytest.mark.parametrize("quench", [0, 1])
def test_deadline__that_cannot_be_met_ends_the_flow_if_it_may_be_quenched(quench: int) -> None:
    """The first deadline leaves no time for 100 packets. The last flow waits until it is too late for it."""
    net = network(3)
    net.add(
        bytes=[100 * PAYLOAD, 400 * PAYLOAD, 100 * PAYLOAD],
        start_ps=[0, 0, ASKED + TRIP],
        deadline_ps=[ASKED + 100 * FULL - 1, ASKED + TRIP + 450 * FULL, ASKED + TRIP + 480 * FULL],
        source=[0, 0, 1],
        sink=[2] * 3,
        on_quench=[quench] * 3,
    )
    result = net.finish()
    net.assert_nothing_left()
    if not quench:
        assert set(result["outcome"]) == {FINISHED}
        return
    assert result["outcome"].tolist() == [KILLED, FINISHED, KILLED]
    assert result["fct_ps"][0] == ASKED
    assert result["delivered_bytes"][0] == 0
    least = 480 * FULL - 100 * FULL
    assert least < result["fct_ps"][2] <= least + 2 * TRIP


def test_waiting__a_flow_probes_once_a_round_trip_or_less_often() -> None:
    """Ten senders of a tenth of the link each fill it for long. Two further ones wait at places 10 and 11."""
    net = network(13, up_bps=RATE // 10)
    sizes = [10**7 + 10**5 * i for i in range(12)]
    net.add(bytes=sizes, start_ps=[0] * 12, source=range(12), sink=[12] * 12)
    net.run(MS)
    before = [net.port(host).packets for host in (10, 11)]
    trips_us = []
    for now in range(MS, 41 * MS, MS // 10):
        net.run(now)
        trips_us.append([net.sender(flow)["rtt_us"] + 0.5 for flow in (10, 11)])
    probes = [net.port(host).packets - sent for host, sent in zip((10, 11), before, strict=True)]
    trip_us = np.mean(trips_us)
    assert probes == pytest.approx([40_000 / (2 * trip_us), 40_000 / (2.2 * trip_us)], rel=0.05)
    assert probes[0] / probes[1] == pytest.approx(1.1, rel=0.02)


def test_losses__are_repaired_and_no_port_keeps_a_grant() -> None:
    """Thirty flows start at once at a port that holds three packets. Flows that come later have the link alone."""
    net = network(31, rto_min_ps=300 * US)
    full = kit.single(
        31,
        kit.transport(control=core.Control.pdq, echo=core.Echo.none, rto_min_ps=300 * US),
        up=Link(RATE, DELAY, more={"grants_rates": True}),
        down=Link(RATE, DELAY, buffer_bytes=3 * FRAME, more={"grants_rates": True}),
    )
    for each in (net, full):
        each.add(bytes=[50_000] * 30, start_ps=[0] * 30, source=range(30), sink=[30] * 30)
        each.run(kit.S)
        each.flow(0, 30, 100 * PAYLOAD, kit.S)
        result = each.finish()
        assert set(result["outcome"]) == {FINISHED}
        assert result["fct_ps"][-1] == ASKED + ACROSS + 99 * FULL
        each.assert_nothing_left()
    assert full.port(full.towards[30]).dropped > 0


def test_waiting__a_flow_probes_at_most_once_in_the_time_of_a_packet() -> None:
    """Here headers take no time, because links may send ahead of their rate."""
    link = Link(RATE, 1, more={"grants_rates": True, "burst_bytes": 100 * FRAME})
    net = kit.single(3, kit.transport(control=core.Control.pdq), up=link, down=link)
    net.add(bytes=[10**6, 10**7], start_ps=[0, 0], source=[0, 1], sink=[2, 2])
    time_ps = 300 * US
    assert net.run(time_ps, events=100_000), "it ends at this time, not at this number of events"
    assert 1 < net.port(1).packets <= time_ps / FULL + 1
