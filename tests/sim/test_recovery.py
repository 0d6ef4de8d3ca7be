# SPDX-License-Identifier: Apache-2.0
"""The reaction of a connection to losses, to the picosecond if the test can choose the lost packet."""

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sluice.simulator import _fabric as core
from tests.sim import kit
from tests.sim.bottleneck import blocked, compiled
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


# ── When a reduction for packets that were only late is undone: [simulator] undo ───────────────


RATE = 10**8
LATE_PACKETS = 60


def needless(undoes_late: bool) -> tuple[int, int]:
    """Return retransmissions and packets that left their host, if a flow's later packets overtake earlier ones.

    Both queues have a share, so the flow's last packets, in the second queue, pass those that wait in the first.
    """
    settings = kit.transport(
        recovers_as_linux=True, undoes_late=undoes_late, initial_window=LATE_PACKETS, rto_min_ps=100 * MS
    )
    shared = Link(RATE, discipline=kit.shares([0.5, 0.5], 4 * FRAME))
    net = kit.single(2, settings, down=shared)
    queue_of = [0] * kit.TAGS
    queue_of[12:] = [1] * (kit.TAGS - 12)
    net.fabric.set_queue_of(net.towards[1], queue_of)
    net.flow(0, 1, LATE_PACKETS * PAYLOAD)
    result = net.finish()
    assert net.fabric.packets_dropped == 0
    assert result["outcome"].tolist() == [kit.FINISHED]
    return int(result["retransmissions"][0]), net.port(0).packets


def test_a_late_packet_ends_the_retransmissions_only_if_none_is_in_flight() -> None:
    """tcp_try_undo_partial: Linux waits for the retransmissions that are in flight, and keeps the lost packets lost."""
    early, late = needless(False), needless(True)
    assert 0 < early[0] < late[0]


@pytest.mark.parametrize("undoes_late", [False, True])
def test_only_data_that_was_retransmitted_leaves_twice(undoes_late: bool) -> None:
    retransmissions, left = needless(undoes_late)
    assert left <= LATE_PACKETS + retransmissions + 1
    assert needless(undoes_late) == (retransmissions, left)


# Packets of one flow that overtake each other. RFC 8985, section 6.2, limits how long one may be
# missing. RFC 3522 undoes a needless reduction.


PROBE = Path(__file__).with_name("reordering_probe.cpp")
LEAVES, ARRIVES, ARRIVES_AGAIN, RECOVERY_ENDS, NOTHING = range(5)
NEVER = 2**63 - 1
ROUND_TRIP = 100

Step = tuple[int, ...]
"""(time, event, packet); ARRIVES_AGAIN also has una and next."""
Play = Callable[[Sequence[Step]], list[tuple[int, int]]]
"""Steps → for each, the packet that is lost or -1, and the time of the next loss."""


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Play:
    """Play steps on the reordering window, which is compiled with the checks for undefined behaviour."""
    function = compiled(PROBE, tmp_path_factory.mktemp("probe")).sluice_reordering
    pointer = ctypes.POINTER(ctypes.c_int64)
    function.argtypes = [ctypes.c_int64, pointer, pointer, pointer]

    def run(steps: Sequence[Step]) -> list[tuple[int, int]]:
        rows = np.zeros((len(steps), 5), np.int64)
        for row, step in zip(rows, steps, strict=True):
            row[: len(step)] = step
        lost, due = np.zeros(len(steps), np.int64), np.zeros(len(steps), np.int64)
        function(len(steps), *(column.ctypes.data_as(pointer) for column in (rows, lost, due)))
        return list(zip(lost.tolist(), due.tolist(), strict=True))

    return run


def burst(count: int, at: int = 0) -> list[Step]:
    return [(at, LEAVES, number) for number in range(count)]


def overtaken(*later: Step) -> list[Step]:
    """Packets 0, 1 and 2 leave at once and 1 arrives. Then the given steps follow."""
    return [*burst(3), (ROUND_TRIP, ARRIVES, 1), *later]


def duplicates(windows: int) -> list[Step]:
    """A packet arrives twice in each of so many round trips."""
    return [(ROUND_TRIP, ARRIVES_AGAIN, 0, 10 * k, 10 * k + 10) for k in range(windows)]


QUARTER, LATER = ROUND_TRIP // 4, 10**6
DUE = ROUND_TRIP + QUARTER


@pytest.mark.parametrize(
    ("steps", "last"),
    [
        pytest.param(
            [*burst(3), (ROUND_TRIP, ARRIVES, 0), (LATER, NOTHING, 0)], (-1, NEVER), id="no later one arrived"
        ),
        pytest.param(overtaken((DUE - 1, NOTHING, 0)), (-1, DUE), id="a quarter of the least round trip"),
        pytest.param(overtaken((DUE, NOTHING, 0)), (0, NEVER), id="and no longer"),
        pytest.param(
            overtaken((ROUND_TRIP + 10, ARRIVES, 0), (LATER, NOTHING, 0)),
            (-1, NEVER),
            id="it arrived meanwhile",
        ),
        pytest.param(overtaken((LATER, NOTHING, 0)), (0, NEVER), id="of those that left at once, the first"),
        *(
            pytest.param(
                overtaken(*duplicates(n)), (-1, DUE + n * QUARTER), id=f"{n} round trips with duplicates"
            )
            for n in (1, 2, 3)
        ),
        pytest.param(
            overtaken(*((ROUND_TRIP, ARRIVES_AGAIN, 0, una, 10) for una in range(10))),
            (-1, DUE + QUARTER),
            id="a second duplicate of a round trip changes nothing",
        ),
        pytest.param(
            overtaken(*duplicates(1000)), (-1, 2 * ROUND_TRIP), id="at most the smoothed round trip"
        ),
        *(
            pytest.param(
                overtaken(*duplicates(1), *[(ROUND_TRIP, RECOVERY_ENDS)] * recoveries),
                (-1, ROUND_TRIP + steps * QUARTER),
                id=f"{recoveries} recoveries without a duplicate",
            )
            for recoveries, steps in ((15, 2), (16, 1))
        ),
    ],
)
def test_how_long_a_packet_may_be_missing(play: Play, steps: list[Step], last: tuple[int, int]) -> None:
    """The window is a quarter of the least round trip, and a quarter more for each round trip with a duplicate."""
    assert play(steps)[-1] == last


def test_what_left_again_is_missing_from_then_on(play: Play) -> None:
    """It is lost a second time only if a packet that left after it arrives."""
    again = overtaken((DUE, NOTHING, 0), (DUE, LEAVES, 0), (DUE, ARRIVES, 2))
    assert play([*again, (LATER, NOTHING, 0)])[-1] == (-1, NEVER)
    later = [(DUE + 1, LEAVES, 3), (DUE + 1 + ROUND_TRIP, ARRIVES, 3)]
    assert play([*again, *later])[-1] == (-1, DUE + DUE)


def swap_queues(net: kit.Net, every_ps: int) -> kit.Columns:
    """Run until flow 0 ends, while the last port changes the queue of new packets. So they
    overtake waiting ones."""
    until = 0
    while not until or net.fabric.flows_under_way:
        net.fabric.set_queue_of(net.towards[1], [until // every_ps % 2] * kit.TAGS)
        until += every_ps
        net.run(until)
    return net.results()


@pytest.mark.parametrize("every_us", [10, 20])
@pytest.mark.parametrize("control", ["dctcp", "reno", "cubic"])
def test_a_flow_learns_that_its_packets_overtake_each_other(control: str, every_us: int) -> None:
    """The flow keeps its link full. A flow to which three later packets mean a loss each time does not."""
    packets, took, again = 5000, {}, {}
    for linux in (False, True):
        settings = kit.transport(
            initial_window=30,
            max_window=45,
            recovers_as_linux=linux,
            control=getattr(core.Control, control),
        )
        net = kit.single(2, settings, up=Link(100 * GBIT, 10 * US), down=Link(10 * GBIT, 10 * US))
        net.flow(0, 1, packets * PAYLOAD)
        result = swap_queues(net, every_us * US)
        assert result["delivered_bytes"].tolist() == [packets * PAYLOAD]
        assert net.fabric.packets_dropped == 0
        took[linux], again[linux] = int(result["fct_ps"][0]), int(result["retransmissions"][0])
        net.assert_nothing_left()
    alone = packets * serialisation(FRAME, 10 * GBIT)
    assert took[True] < 1.04 * alone
    assert took[False] > 1.15 * alone
    assert again[True] < 20 < again[False]


@pytest.mark.parametrize("timeouts", [1, 2, 3])
def test_a_window_reduced_for_a_needless_timeout_is_given_back(timeouts: int) -> None:
    """The packets that left before the timeout were not lost, and the next ACK reports it.

    Only one packet for each timeout, and a probe, are retransmitted. Without Eifel, a whole window
    is (test_recovery).
    """
    net = blocked(timeouts, recovers_as_linux=True)
    unfinished = net.fabric.unfinished()
    assert net.sender(0)["cwnd"] == 64
    assert unfinished["timeouts"][0] >= min(timeouts, 2), "a probe takes the place of one"
    assert unfinished["retransmissions"][0] == unfinished["timeouts"][0] + 1
