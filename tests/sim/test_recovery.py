# SPDX-License-Identifier: Apache-2.0
"""The reaction of a connection to losses, to the picosecond if the test can choose the lost packet."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.simulator import _fabric as core
from tests.sim import kit
from tests.sim.bottleneck import blocked
from tests.sim.kit import FRAME, GBIT, HEADER, MS, NS, PAYLOAD, US, Link, S, serialisation

HOST_BPS, PORT_BPS = 10 * GBIT, 12 * GBIT
FULL, ACK, DELAY = serialisation(FRAME, HOST_BPS), serialisation(HEADER, HOST_BPS), US
PORT_FULL = serialisation(FRAME, PORT_BPS)
PACKETS = 30


def arrival(number: int) -> int:
    """Return when a packet of flow 0 arrives at the switch port. Its packets leave back to back
    from time 0 on."""
    return (number + 1) * FULL + DELAY


def ack_of(number: int) -> int:
    """Return when the ACK of that packet arrives."""
    return arrival(number) + PORT_FULL + DELAY + ACK + DELAY + serialisation(HEADER, PORT_BPS) + DELAY


LAST_WAY = FULL + PORT_FULL + 2 * DELAY
"""Time from a packet's departure at its host to its arrival at the sink."""


def lose(number: int, again_at: int | None = None, **settings: Any) -> kit.Columns:
    """Run flow 0, which sends all its packets at once, so that exactly its packet `number` is lost; return the results.

    A full packet of flow 1 arrives while the port sends the packet before `number`. A short packet of flow 2 arrives
    while the port sends that one, and waits. The buffer holds one full packet, so `number` is dropped. The next packets
    find the port free. With `again_at`, flows 3 and 4 do the same to the packet that leaves flow 0's host then.
    """
    transport = kit.transport(initial_window=PACKETS, **settings)
    net = kit.single(6, transport, up=Link(HOST_BPS), down=Link(PORT_BPS, buffer_bytes=FRAME))
    busy_until, short = arrival(number - 1) + PORT_FULL, serialisation(HEADER + 1, HOST_BPS)
    sizes = [PACKETS * PAYLOAD, PAYLOAD, 1]
    net.flow(0, 5, sizes[0])
    net.flow(1, 5, sizes[1], busy_until - PORT_FULL // 2 - arrival(0))
    net.flow(2, 5, sizes[2], (busy_until + arrival(number)) // 2 - short - DELAY)
    if again_at is not None:
        sizes += [PAYLOAD, 1]
        net.flow(3, 5, PAYLOAD, again_at + PORT_FULL - FULL)
        net.flow(4, 5, 1, again_at + (PORT_FULL + FULL) // 2 - short)
    result = net.finish()
    assert net.fabric.packets_dropped == (1 if again_at is None else 2)
    assert result["delivered_bytes"].tolist() == sizes
    assert result["retransmissions"][0] == net.fabric.packets_dropped
    assert not result["retransmissions"][1:].any()
    assert result["fct_ps"][1] == PORT_FULL // 2 + LAST_WAY
    net.assert_nothing_left()
    return result


@pytest.mark.parametrize("number", [2, 5, 20, 23, 25, 26])
@pytest.mark.parametrize("control", ["dctcp", "reno", "cubic"])
def test_a_single_loss_is_mended_without_a_timeout(number: int, control: str) -> None:
    """The ACK of the third packet after it triggers the retransmission, which waits for the host's own packets:
    FCT = max(ack(j + 3), n S) + D."""
    result = lose(number, control=getattr(core.Control, control))
    assert not result["timeouts"].any()
    assert result["fct_ps"][0] == max(ack_of(number + 3), PACKETS * FULL) + LAST_WAY


@pytest.mark.parametrize("linux", [False, True])
def test_a_lost_retransmission_of_the_first_packet_waits_for_one_timeout(linux: bool) -> None:
    """No other packet is in flight that could show the loss.

    In Linux the timeout counts from the retransmission, and by RFC 6298 from the last ACK that
    left no gap. It is the minimum timeout; Linux adds the smoothed round trip.
    """
    number = 20
    result = lose(number, PACKETS * FULL, rto_min_ps=5 * MS, recovers_as_linux=linux)
    assert ack_of(number + 3) < PACKETS * FULL
    begins = ack_of(number + 3) if linux else ack_of(number - 1)
    waited = result["fct_ps"][0] - LAST_WAY - begins
    assert 5 * MS <= waited <= 5 * MS + (ack_of(PACKETS - 1) if linux else 0)


@pytest.mark.parametrize("threshold", [1, 2, 5])
def test_as_many_later_packets_as_the_threshold_says_tell_of_a_loss(threshold: int) -> None:
    result = lose(24, duplicate_threshold=threshold)
    assert not result["timeouts"].any()
    assert result["fct_ps"][0] == max(ack_of(24 + threshold), PACKETS * FULL) + LAST_WAY


@pytest.mark.parametrize("rto_initial", [2 * MS, 5 * MS, S])
def test_the_loss_of_the_last_packet_waits_for_the_timeout(rto_initial: int) -> None:
    """The timeout comes RTO_min after the last new ACK, independent of its value before the first
    sample: FCT = ack(n - 2) + RTO_min + D."""
    result = lose(PACKETS - 1, rto_min_ps=5 * MS, rto_initial_ps=rto_initial)
    assert result["timeouts"].tolist() == [1, 0, 0]
    assert result["fct_ps"][0] == ack_of(PACKETS - 2) + 5 * MS + LAST_WAY


def test_a_probe_asks_for_the_last_packet() -> None:
    """A probe takes the place of the timeout, and the window is not reduced (RFC 8985, section 7).

    Linux's timeout is rto_min longer than the smoothed round trip. The smoothed round trip is
    between the path's own and this flow's longest one.
    """
    result = lose(PACKETS - 1, rto_min_ps=5 * MS, recovers_as_linux=True)
    assert not result["timeouts"].any()
    waited = result["fct_ps"][0] - LAST_WAY - ack_of(PACKETS - 2)
    assert 5 * MS + ack_of(0) <= waited <= 5 * MS + ack_of(PACKETS - 2)


def test_an_answered_probe_tells_of_all_that_is_missing_before_it() -> None:
    """The last three packets of a burst are lost, so no three later packets can show their loss."""
    settings = {"initial_window": PACKETS, "rto_min_ps": 5 * MS, "rto_initial_ps": 5 * MS}
    fct, timeouts = {}, {}
    for linux in (False, True):
        net = kit.single(
            2,
            kit.transport(recovers_as_linux=linux, **settings),
            up=Link(HOST_BPS),
            down=Link(HOST_BPS // 2, buffer_bytes=((PACKETS - 1) // 2 - 2) * FRAME),
        )
        net.flow(0, 1, PACKETS * PAYLOAD)
        result = net.finish()
        assert net.fabric.packets_dropped >= 3
        fct[linux], timeouts[linux] = int(result["fct_ps"][0]), int(result["timeouts"][0])
    assert (timeouts[False] >= 1, timeouts[True]) == (True, 0)
    assert fct[True] < fct[False] < 2 * 5 * MS + fct[True]


def test_a_retransmission_that_is_lost_is_missed_when_later_packets_arrive() -> None:
    """Many flows overflow a small buffer, which also drops retransmissions (RFC 8985, section 6.2)."""
    timeouts = {}
    for linux in (False, True):
        settings = kit.transport(
            control=core.Control.reno, echo=core.Echo.none, rto_min_ps=MS, recovers_as_linux=linux
        )
        net = kit.single(9, settings, up=Link(HOST_BPS), down=Link(HOST_BPS, buffer_bytes=30 * FRAME))
        for source in range(8):
            net.flow(source, 8, 1000 * PAYLOAD)
        result = net.finish()
        assert result["delivered_bytes"].tolist() == [1000 * PAYLOAD] * 8
        timeouts[linux] = int(result["timeouts"].sum())
    assert 3 * timeouts[True] < timeouts[False]


def test_without_a_threshold_only_a_timeout_tells_of_a_loss() -> None:
    """pFabric and sprayed packets need this. The timeout comes RTO_min after the last ACK that
    left no gap, even if packets arrive beyond the gap: FCT = ack(j - 1) + RTO_min + D."""
    result = lose(10, duplicate_threshold=0, rto_min_ps=5 * MS)
    assert result["timeouts"].tolist() == [1, 0, 0]
    assert result["fct_ps"][0] == ack_of(9) + 5 * MS + LAST_WAY


def test_a_starved_flow_of_pfabric_probes_and_goes_on_at_once() -> None:
    """pFabric's timeout is fixed. From the fifth in a row on, a flow sends headers only, until one is answered.

    So it costs the shorter flow nothing, and loses at most one timeout itself (SIGCOMM 2013, section 4.2).
    """
    timeout, short, long = 250 * US, 4000, 6000
    settings = kit.transport(
        control=core.Control.pfabric,
        echo=core.Echo.none,
        initial_window=70,
        max_window=139,
        duplicate_threshold=0,
        rto_min_ps=timeout,
    )
    shortest_first = kit.discipline(scheduler=core.Scheduler.shortest_first)
    down = Link(HOST_BPS, discipline=shortest_first, buffer_bytes=60 * FRAME)
    net = kit.single(3, settings, up=Link(HOST_BPS), down=down)
    net.flow(0, 2, short * PAYLOAD)
    net.flow(1, 2, long * PAYLOAD)
    result = net.finish()
    alone = short * FULL
    assert result["fct_ps"][0] < 1.02 * alone
    assert 5 < result["timeouts"][1] <= alone // timeout + 1, "each after the same time"
    assert result["retransmissions"][1] < 70 + 5, (
        "the first window, and one packet at each timeout before the fifth"
    )
    assert (short + long) * FULL < result["fct_ps"][1] < 1.02 * (short + long) * FULL + timeout


def drop_times(net: kit.Net, count: int) -> list[int]:
    """Return the times of the first `count` drops."""
    times: list[int] = []
    while len(times) < count:
        before = net.fabric.packets_dropped
        assert not net.run(10**6 * S, 1)
        times += [net.fabric.now_ps] * (net.fabric.packets_dropped - before)
    return times


@pytest.mark.parametrize("rto_initial", [20 * US, 3 * MS, S])
def test_timeouts_double(rto_initial: int) -> None:
    """A packet that never arrives is retransmitted after RTO, 3 RTO, 7 RTO … (RFC 6298). The
    handshake's sample sets RTO = max(RTO_min, srtt + 4 rttvar), independent of its value
    before."""
    settings = kit.transport(handshake=True, initial_window=1, rto_min_ps=MS, rto_initial_ps=rto_initial)
    net = kit.single(2, settings, down=Link(buffer_bytes=500))
    net.flow(0, 1, PAYLOAD)
    sent = 4 * (ACK + DELAY)
    assert drop_times(net, 10) == [sent + (2**k - 1) * MS + FULL + DELAY for k in range(10)]


def test_syns_are_sent_again() -> None:
    """A SYN is retransmitted after rto_initial, three times that, seven times that …"""
    settings = kit.transport(handshake=True, rto_initial_ps=3 * MS)
    net = kit.single(2, settings, down=Link(buffer_bytes=60))
    net.flow(0, 1, PAYLOAD)
    assert drop_times(net, 6) == [(2**k - 1) * 3 * MS + ACK + DELAY for k in range(6)]


def test_the_first_timeout_is_three_round_trips() -> None:
    """The first sample R gives srtt = R, rttvar = R / 2, RTO = srtt + 4 rttvar = 3 R, which then doubles (RFC 6298)."""
    settings = kit.transport(handshake=True, initial_window=1, rto_min_ps=NS, rto_initial_ps=S)
    net = kit.single(2, settings, down=Link(buffer_bytes=500))
    net.flow(0, 1, PAYLOAD)
    trip = 4 * (ACK + DELAY)
    assert drop_times(net, 6) == [trip + (2**k - 1) * 3 * trip + FULL + DELAY for k in range(6)]


@pytest.mark.parametrize("timeouts", [1, 2, 3])
def test_slow_start_ends_at_half_of_the_window_before_the_first_timeout(timeouts: int) -> None:
    """ssthresh is half of the packets in flight, and further timeouts of the same packet keep it
    (RFC 5681, section 3.1).

    A flow with a window of 64 is blocked for some milliseconds. After any number of timeouts, it
    is soon back at 32, and then grows by one packet a round trip.
    """
    net = blocked(timeouts)
    assert net.fabric.unfinished()["timeouts"].tolist() == [timeouts]
    assert 32 <= net.sender(0)["cwnd"] < 40
