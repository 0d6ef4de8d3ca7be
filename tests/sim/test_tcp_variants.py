# SPDX-License-Identifier: Apache-2.0
"""Where implementations of TCP differ ([simulator.tcp]): each setting alone, against what it says."""

import csv
from itertools import pairwise
from typing import Any

import pytest

from experiments.checks import ns2
from sluice.policy.workload.scenario import scenario_from_document
from sluice.runs.files import load_cdf
from sluice.simulator import _fabric as core
from sluice.simulator.run import Simulation
from sluice.simulator.taps import Taps
from sluice.topologies import build_topology
from tests.kit.bundles import given
from tests.sim import kit
from tests.sim.bottleneck import FULL, TRIP, TRIP_IN_ALL, bottleneck, forever
from tests.sim.kit import FRAME, GBIT, HEADER, MS, PAYLOAD, US, Link, serialisation

ALPHA_ONE_Q20 = 1 << 20
WINDOW = 10
SLOW_PATH = 3
"""The number of the port towards the slower path in two_paths."""


def marked_bottleneck(**settings: Any) -> kit.Net:
    net = bottleneck(1, TRIP, kit.transport(**settings), more={"mark_bytes": 40 * FRAME})
    forever(net, 0, 1)
    return net


def windows(net: kit.Net, until_ps: int) -> list[int]:
    """Return the window in packets after each packet time."""
    found = []
    for now in range(net.fabric.now_ps, until_ps, FULL):
        net.run(now)
        found.append(net.sender()["cwnd"])
    return found


def two_paths(slow_ps: int, **settings: Any) -> kit.Net:
    """Host 0 sends to host 1 over a fast and a slow path in turn. The second packet takes the fast one."""
    net = kit.Net(2, 4, kit.transport(**settings), spray=True)
    edge, fast, slow = Link(), Link(), Link(delay_ps=slow_ps)
    net.add_port(edge, 0)
    net.add_port(edge, 3)
    there = [net.add_port(fast, 1), net.add_port(slow, 2)]
    net.route(0, [1], there)
    for middle in (1, 2):
        net.route(middle, [1], [net.add_port(fast, 3)])
        net.route(middle, [0], [net.add_port(fast, 0)])
    net.route(3, [1], [net.add_port(edge, 1, to_host=True)])
    net.route(0, [0], [net.add_port(edge, 0, to_host=True)])
    net.route(3, [0], [net.add_port(fast, 1)])
    return net


def test_ends_with_ack__the_completion_time_has_the_way_back() -> None:
    fct = []
    for ends_with_ack in (False, True):
        net = kit.chain([Link(), Link()], kit.transport(ends_with_ack=ends_with_ack))
        net.flow(0, 1, 5 * PAYLOAD)
        fct.append(int(net.finish()["fct_ps"][0]))
        net.assert_nothing_left()
    assert fct[1] - fct[0] == 2 * (US + serialisation(HEADER, 10 * GBIT))


@pytest.mark.parametrize("alpha", [1.0, 0.5, 0.0])
def test_first_alpha__decides_the_first_cut(alpha: float) -> None:
    """Five windows without marks precede it, and alpha falls by 1/16 with each."""
    net = marked_bottleneck(first_alpha_q20=round(alpha * ALPHA_ONE_Q20))
    first = next(w for w in net.trace(5 * MS, 10 * US)[0] if w.cuts)
    assert 1 - first.cut_to / first.cut_from == pytest.approx(alpha * (15 / 16) ** 5 / 2, abs=0.01)


def largest_fall(**settings: Any) -> int:
    found = windows(marked_bottleneck(**settings), 20 * TRIP)
    return max(before - after for before, after in pairwise(found))


def test_cuts_at_once__the_window_falls_with_one_ack() -> None:
    assert largest_fall() <= 2, "with each ACK by half a packet"
    assert largest_fall(cuts_at_once=True) > 20


def test_bounds_from_first__what_has_arrived_beyond_a_gap_lets_nothing_leave() -> None:
    left = []
    for from_first in (False, True):
        net = two_paths(MS, bounds_from_first=from_first, initial_window=WINDOW, duplicate_threshold=0)
        net.flow(0, 1, 100 * PAYLOAD)
        net.run(MS // 2)
        left.append(net.port(0).packets)
    assert left[1] in (WINDOW, WINDOW + 1), "the first packet may take the fast path"
    assert left[0] > WINDOW + 1


@pytest.mark.parametrize(("by_advance", "growth"), [(False, 2.0), (True, 1.5)])
def test_changes_by_advance__slow_start_grows_by_one_packet_for_each_ack(
    by_advance: bool, growth: float
) -> None:
    """With an ACK for every second packet."""
    settings = kit.transport(changes_by_advance=by_advance, packets_per_ack=2, initial_window=WINDOW)
    net = bottleneck(1, TRIP, settings)
    forever(net, 0, 1)
    net.run(TRIP_IN_ALL + WINDOW * FULL)
    assert net.sender()["cwnd"] == pytest.approx(WINDOW * growth, abs=1)


def second_threshold(**settings: Any) -> tuple[int, int]:
    """Return alpha and the window of a second flow, eight round trips after its start."""
    net = bottleneck(
        1, TRIP, kit.transport(initial_window=WINDOW, **settings), more={"mark_bytes": 40 * FRAME}
    )
    net.flow(0, 1, 3000 * PAYLOAD)
    net.flow(0, 1, 3000 * PAYLOAD, 50 * MS)
    net.run(50 * MS + 3 * TRIP_IN_ALL)
    return net.windows()[1].alpha_q20, net.sender(1)["cwnd"]


def test_keeps_threshold__the_next_flow_goes_on_without_slow_start() -> None:
    alpha, window = second_threshold()
    assert alpha > ALPHA_ONE_Q20 / 2
    assert window >= 4 * WINDOW
    alpha, window = second_threshold(keeps_threshold=True)
    assert alpha < ALPHA_ONE_Q20 / 2
    threshold = 30
    assert window <= max(WINDOW + 4, 2 * threshold)


def alpha_after_the_first_ack(**settings: Any) -> float:
    """Return alpha of a second flow. The first one sent five packets, of which the last one was marked."""
    settings |= {"first_alpha_q20": 0, "alpha_by_acks": True, "initial_window": 5}
    net = bottleneck(1, TRIP, kit.transport(**settings), more={"mark_bytes": 2 * FRAME + 1})
    net.flow(0, 1, 5 * PAYLOAD)
    net.flow(0, 1, 1000 * PAYLOAD, MS)
    net.run(MS + TRIP_IN_ALL + FULL)
    return net.windows()[1].alpha_q20 / ALPHA_ONE_Q20


def test_keeps_threshold__what_was_counted_for_alpha_counts_with_the_next_flow() -> None:
    """The first flow's first ACK ended a window of data. The other four, and this one, are the next window."""
    assert alpha_after_the_first_ack() == 0
    assert alpha_after_the_first_ack(keeps_threshold=True) == pytest.approx(1 / 5 / 16, abs=1e-5)


def test_keeps_threshold__a_flow_takes_the_connection_that_has_been_idle_for_longest() -> None:
    """Alpha falls by 1/16 with each window of data, and the shorter flow has one window."""
    settings = kit.transport(keeps_threshold=True, alpha_by_acks=True, initial_window=5)
    net = bottleneck(1, TRIP, settings)
    net.flow(0, 1, 200 * PAYLOAD)
    net.flow(0, 1, 5 * PAYLOAD)
    net.flow(0, 1, 1000 * PAYLOAD, MS)
    net.run(MS + TRIP_IN_ALL + FULL)
    assert net.windows()[2].alpha_q20 / ALPHA_ONE_Q20 == pytest.approx((15 / 16) ** 2, abs=1e-4)


def test_fixed_timeout__it_comes_though_the_round_trip_is_longer() -> None:
    timeouts = []
    for rule in (core.TimeoutRule.rfc6298, core.TimeoutRule.fixed):
        settings = kit.transport(timeout_rule=rule, rto_min_ps=MS, rto_initial_ps=10 * MS)
        net = kit.chain([Link(delay_ps=MS), Link(delay_ps=MS)], settings)
        net.flow(0, 1, 5 * PAYLOAD)
        timeouts.append(int(net.finish()["timeouts"][0]))
    assert timeouts[0] == 0
    assert timeouts[1] == 2, "after 1 and 2 ms, before the first packet has arrived"


def small_cut(**settings: Any) -> tuple[int, float]:
    """Return the window after the first cut, and what an exact cut would leave."""
    net = marked_bottleneck(first_alpha_q20=ALPHA_ONE_Q20 // 12, cuts_at_once=True, **settings)
    first = next(w for w in net.trace(5 * MS, 10 * US)[0] if w.cuts)
    return first.cut_to, first.cut_from * (1 - first.cut_penalty_q20 / ALPHA_ONE_Q20 / 2)


def least_window(**settings: Any) -> int:
    """Return the smallest window of eight flows of whose packets nearly all are marked."""
    given = {"cuts_at_once": True, "changes_by_advance": True, "initial_window": 2}
    net = bottleneck(8, TRIP // 20, kit.transport(**given, **settings), more={"mark_bytes": 1})
    for source in range(8):
        forever(net, source, 8)
    least = []
    for now in range(0, 2 * TRIP, FULL):
        net.run(now)
        least.append(min(net.fabric.senders()["cwnd"], default=2))
    return min(least)


def test_keeps_fractions__a_cut_is_exact_and_may_leave_one_packet() -> None:
    rounded, exact = small_cut()
    assert rounded == round(exact) == int(exact) + 1, "rounding makes a difference here"
    assert small_cut(keeps_fractions=True) == (int(exact), exact)
    assert (least_window(), least_window(keeps_fractions=True)) == (2, 1)


def acks_to_grow(**settings: Any) -> int:
    """Return how many packets are acknowledged while the window is 10, long after a single cut from 8 packets."""
    given = {"first_alpha_q20": ALPHA_ONE_Q20 // 12, "cuts_at_once": True, "initial_window": 8}
    net = all_marked(**given, **settings)
    while net.sender(1)["cwnd"] == given["initial_window"]:
        net.run(net.fabric.now_ps + FULL)
    net.fabric.change_port(net.towards[1], Link(delay_ps=TRIP // 4).settings(), core.Discipline())
    while (now := net.sender(1))["cwnd"] < 10:
        net.run(net.fabric.now_ps + FULL // 2)
    began = now["acked_bytes"]
    while (now := net.sender(1))["cwnd"] == 10:
        net.run(net.fabric.now_ps + FULL // 2)
    return (now["acked_bytes"] - began) // PAYLOAD


def all_marked(**settings: Any) -> kit.Net:
    """Return a network in which flow 1 has just begun, and all of its packets will be marked."""
    more = {"phantom_rate_bps": 1, "phantom_mark_bytes": 1}
    net = bottleneck(1, TRIP, kit.transport(changes_by_advance=True, **settings), more=more)
    net.flow(0, 1, PAYLOAD)  # no packet after it finds an empty phantom queue
    forever(net, 0, 1, 2 * TRIP)
    net.run(2 * TRIP + TRIP // 2)
    return net


def test_keeps_fractions__a_window_with_a_fraction_needs_one_ack_more_to_grow() -> None:
    assert (acks_to_grow(), acks_to_grow(keeps_fractions=True)) == (10, 11)


@pytest.mark.parametrize("by_acks", [False, True])
def test_a_cut_knows_the_ack_that_causes_it(by_acks: bool) -> None:
    """The first ACK is marked and ends the first window of data. So alpha is 1/16 before the cut, as in Linux."""
    net = all_marked(first_alpha_q20=0, cuts_at_once=True, initial_window=64, alpha_by_acks=by_acks)
    net.run(2 * TRIP + TRIP_IN_ALL + FULL)
    assert net.sender(1)["cwnd"] == 62


def marked_path(**settings: Any) -> float:
    """Return alpha of a flow whose packets take two paths in turn. The slower one marks all of them."""
    net = two_paths(30 * US, duplicate_threshold=0, initial_window=20, max_window=20, **settings)
    slow = Link(delay_ps=30 * US, more={"phantom_rate_bps": 1, "phantom_mark_bytes": 1})
    net.fabric.change_port(SLOW_PATH, slow.settings(), core.Discipline())
    forever(net, 0, 1)
    net.run(20 * MS)
    return net.windows()[0].alpha_q20 / ALPHA_ONE_Q20


def test_alpha_by_acks__what_an_ack_passes_counts_with_its_mark() -> None:
    """An ACK from the slow path passes what had overtaken its packet, and had been counted before."""
    assert marked_path() == pytest.approx(1 / 2, abs=0.02)
    assert marked_path(alpha_by_acks=True) == pytest.approx(2 / 3, abs=0.02)


def after_blackout(mark_bytes: int, **settings: Any) -> int:
    """Return the window some round trips after a timeout, in slow start or beyond it."""
    given = {"rto_min_ps": MS, "timeout_rule": core.TimeoutRule.fixed, "cuts_at_once": True}
    net = bottleneck(1, TRIP, kit.transport(**given, **settings), more={"mark_bytes": mark_bytes})
    forever(net, 0, 1)
    for until, buffer_bytes in ((20 * MS, 1), (20 * MS + 300 * US, kit.NO_BOUND)):
        net.run(until)
        link = Link(10 * GBIT, TRIP // 4, buffer_bytes=buffer_bytes, more={"mark_bytes": mark_bytes})
        net.fabric.change_port(net.towards[1], link.settings(), core.Discipline())
    net.run(22 * MS + 15 * TRIP)
    return net.sender()["cwnd"]


def test_timeout_spares_threshold__if_the_last_cut_was_for_marks() -> None:
    halved, spared = (after_blackout(40 * FRAME, timeout_spares_threshold=s) for s in (False, True))
    assert spared > 1.5 * halved


def test_opens_if_busy__only_a_flow_that_finds_no_idle_connection_has_a_handshake() -> None:
    fct = {}
    for opens in (False, True):
        net = kit.chain([Link(), Link()], kit.transport(keeps_threshold=True, opens_if_busy=opens))
        for start in (0, 0, MS):
            net.flow(0, 1, 5 * PAYLOAD, start)
        fct[opens] = [int(t) for t in net.finish()["fct_ps"]]
        net.assert_nothing_left()
    assert fct[True][0] == fct[False][0]
    assert fct[True][1] > fct[False][1]
    assert fct[True][2] == fct[False][2]


def bytes_of_acks(**settings: Any) -> tuple[int, int]:
    """Return the packets and the bytes that host 1 sends while packets overtake each other."""
    net = two_paths(30 * US, duplicate_threshold=0, initial_window=20, **settings)
    net.flow(0, 1, 100 * PAYLOAD)
    net.finish()
    return net.port(1).packets, net.port(1).bytes


def test_sack_option__an_ack_is_longer_by_its_blocks() -> None:
    packets, without = bytes_of_acks()
    assert without == packets * HEADER
    same, with_blocks = bytes_of_acks(sack_option_bytes=2)
    assert 0 < with_blocks - same * HEADER <= packets * (2 + 3 * 8)


# TCP small queues and the ticks of timers, against a plain reading of what Linux does.


OVERHEAD = 832
"""Bytes of a packet's memory beyond its payload: `ss -tm` of a connection whose data waits, on Linux 6.18."""
FAR = Link(1000 * kit.GBIT, US)
MBIT = 10**6


def transport(**settings: object) -> core.TransportSettings:
    return kit.transport(
        **{"small_queues": True, "recovers_as_linux": True, "packets_per_ack": 1, **settings}
    )


def host(bps: int) -> Link:
    return Link(bps, 50 * US, more={"tells_hosts": True})


def lone_flow(bps: int, settings: core.TransportSettings) -> kit.Net:
    net = kit.single(2, settings, up=host(bps), down=FAR)
    net.flow(0, 1, 10**9, until_ps=10**6 * MS)
    return net


def allowed_packets(cwnd: int, rtt_us: int) -> int:
    """tcp_small_queue_check: a packet may follow while less memory than the limit waits. In slow start the pacing rate
    is twice the window a round trip."""
    rate_bytes_per_s = 2 * cwnd * PAYLOAD * 1e6 / rtt_us
    limit = max(2 * (PAYLOAD + OVERHEAD), rate_bytes_per_s / 1024)
    return int(-(-limit // (PAYLOAD + OVERHEAD)))


@pytest.mark.parametrize("mbit", [10, 50, 200, 1000])
def test_a_connection_keeps_a_millisecond_of_its_rate_in_the_host(mbit: int) -> None:
    net = lone_flow(mbit * MBIT, transport())
    for now_ms in range(300, 340):
        net.run(now_ms * MS + 7 * US)
        sender = net.sender()
        waiting = net.port(0).waiting_bytes // FRAME
        assert waiting == allowed_packets(sender["cwnd"], sender["rtt_us"])


@pytest.mark.parametrize("mbit", [10, 1000])
def test_a_window_that_the_host_leaves_unused_does_not_grow(mbit: int) -> None:
    """tcp_is_cwnd_limited: in slow start up to twice the packets that were out. Without it, all waits in the host."""
    net = lone_flow(mbit * MBIT, transport())
    net.run(300 * MS)
    sender = net.sender()
    under_way = net.port(0).waiting_bytes / FRAME + 101 * US / serialisation(FRAME, mbit * MBIT) + 1
    assert sender["cwnd"] <= 2 * (under_way + 12)
    free = lone_flow(mbit * MBIT, transport(small_queues=False))
    free.run(300 * MS)
    assert free.sender()["cwnd"] > 4 * sender["cwnd"]


@pytest.mark.parametrize("small_queues", [True, False])
def test_a_packet_that_waits_in_its_host_is_not_retransmitted(small_queues: bool) -> None:
    """skb_still_in_host_queue. One flow's packets wait for 120 ms behind another's, and their timeout is 10 ms."""
    first, second, rate = 1000, 5, 100 * MBIT
    settings = transport(small_queues=small_queues, initial_window=first, tags_deadlines=True)
    net = kit.single(3, settings, up=host(rate), down=FAR)
    net.fabric.set_queue_of(0, kit.priority_map())
    net.flow(0, 1, first * PAYLOAD, **kit.as_priority(0, 0))
    net.flow(0, 2, second * PAYLOAD, **kit.as_priority(7, 0))
    net.run(100 * MS)
    port = net.port(0)
    accepted = port.packets + port.waiting_bytes // FRAME
    assert (accepted == first + second) == small_queues
    assert net.finish()["delivered_bytes"].tolist() == [first * PAYLOAD, second * PAYLOAD]


@pytest.mark.parametrize(
    ("tick_ms", "start_ms", "timeouts_ms"),
    [
        (0, 1, [11, 31, 71]),
        (
            4,
            1,
            [16, 40, 84],
        ),  # the wheel's tick after 3, 5 and 10 whole ticks: 0 + 12 + 4, 16 + 20 + 4, 40 + 40 + 4
        (4, 3, [16, 40, 84]),
        (10, 5, [20, 50, 100]),
    ],
)
def test_a_timer_fires_with_the_tick_after_whole_ticks(
    tick_ms: int, start_ms: int, timeouts_ms: list[int]
) -> None:
    """Every packet is lost, so each timeout sends one: 10 ms after the first packet, then doubled."""
    settings = kit.transport(recovers_as_linux=True, initial_window=1, tick_ps=tick_ms * MS)
    net = kit.single(2, settings, up=Link(buffer_bytes=FRAME - 1))
    net.flow(0, 1, PAYLOAD, start_ms * MS)
    for number, at_ms in enumerate(timeouts_ms, start=1):
        net.run(at_ms * MS - 1)
        assert net.fabric.packets_sent == number
        net.run(at_ms * MS)
        assert net.fabric.packets_sent == number + 1


def test_a_host_sends_all_that_waits_though_packets_are_lost() -> None:
    """Two flows overflow the port of their receiver."""
    net = kit.single(
        3, transport(handshake=True), up=host(100 * MBIT), down=Link(100 * MBIT, buffer_bytes=20 * FRAME)
    )
    for source in (0, 1):
        net.flow(source, 2, 400 * PAYLOAD)
    assert net.finish()["outcome"].tolist() == [kit.FINISHED] * 2
    assert net.port(net.towards[2]).dropped > 0
    net.assert_nothing_left()


def test_a_packet_that_its_own_host_drops_waits_there_no_longer() -> None:
    """The first window has ten packets, and the port of the host room for three."""
    narrow = Link(100 * MBIT, 50 * US, buffer_bytes=3 * FRAME, more={"tells_hosts": True})
    net = kit.single(2, transport(), up=narrow, down=FAR)
    net.flow(0, 1, 100 * PAYLOAD)
    assert net.finish()["outcome"].tolist() == [kit.FINISHED]
    assert net.port(0).dropped > 0
    net.assert_nothing_left()


def test_a_port_that_tells_its_host_nothing_holds_no_connection_back() -> None:
    fct = []
    for up in (Link(GBIT, 50 * US), host(GBIT)):
        net = kit.single(2, transport(), up=up, down=FAR)
        net.flow(0, 1, 5000 * PAYLOAD)
        fct += net.finish()["fct_ps"].tolist()
    assert fct[0] == fct[1]


def test_change_port__leaves_what_a_port_tells_its_host() -> None:
    net = kit.single(2, transport(), up=host(100 * MBIT), down=FAR)
    with pytest.raises(ValueError, match="tells_hosts and flow_control must be those of add_port"):
        net.fabric.change_port(0, Link(100 * MBIT, 50 * US).settings(), core.Discipline())


# Single flows as in ns-2: the first ones of the run that experiments/checks/ns2.py compares by flow size.


STARTED = 400
"""Flows that start in the first 5 ms. Later ones cannot change the short ones among the first hundred."""
CLOSE_US = 0.1


@pytest.mark.slow
def test_ns2__of_the_first_hundred_flows_three_of_four_take_the_same_time() -> None:
    """A flow differs once it meets a long one: the queues of both simulators drift apart by a packet."""
    document = ns2._point(ns2.AS_NS2, ns2.NS2, given(ns2.EXPERIMENT, "--flows", str(STARTED))).document
    scenario = scenario_from_document(document, load_cdf)
    took_us: dict[tuple[int, int, int], float] = {}

    def note(columns: dict[str, Any]) -> None:
        names = ("start_s", "src", "dst", "bytes", "fct_ps")
        for start_s, source, sink, size_bytes, fct_ps in zip(*(columns[n] for n in names), strict=True):
            if start_s >= ns2.FLOWS_AT_S:
                took_us[int(source), int(sink), int(size_bytes) // ns2.PACKET_BYTES] = fct_ps / 1e6

    Simulation(scenario, build_topology(scenario), Taps(flows=note)).run()
    with ns2.FIRST_FLOWS.open() as file:
        theirs = {
            (int(row["source"]), int(row["sink"]), int(row["packets"])): float(row["fct_us"])
            for row in csv.DictReader(file)
        }
    assert len(theirs) == 100
    same = [key for key, fct_us in theirs.items() if abs(took_us[key] - fct_us) <= CLOSE_US]
    assert len(same) >= 70
