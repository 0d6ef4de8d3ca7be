# SPDX-License-Identifier: Apache-2.0
"""TCP small queues and the ticks of timers, against a plain reading of what Linux does."""

from __future__ import annotations

import pytest

from sluice.simulator import _fabric as core
from tests.sim import kit
from tests.sim.kit import FRAME, GBIT, MS, PAYLOAD, US, Link, serialisation

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
    with pytest.raises(ValueError, match="tells_hosts must be those of add_port"):
        net.fabric.change_port(0, Link(100 * MBIT, 50 * US).settings(), core.Discipline())
