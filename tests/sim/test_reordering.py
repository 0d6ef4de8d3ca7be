# SPDX-License-Identifier: Apache-2.0
"""Packets of one flow that overtake each other. RFC 8985, section 6.2, limits how long one may be
missing. RFC 3522 undoes a needless reduction."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from sluice.simulator import _fabric as core
from tests.sim import kit
from tests.sim.bottleneck import blocked
from tests.sim.kit import FRAME, GBIT, PAYLOAD, US, Link, serialisation
from tests.sim.probes import compiled

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


def test_nothing_is_missing_before_a_later_packet_has_arrived(play: Play) -> None:
    assert play([*burst(3), (ROUND_TRIP, ARRIVES, 0), (10**6, NOTHING, 0)])[-1] == (-1, NEVER)


def test_a_packet_may_be_missing_for_a_quarter_of_the_least_round_trip(play: Play) -> None:
    due = ROUND_TRIP + ROUND_TRIP // 4
    assert play(overtaken((due - 1, NOTHING, 0), (due, NOTHING, 0)))[-3:] == [
        (-1, due),
        (-1, due),
        (0, NEVER),
    ]


def test_a_packet_that_arrives_meanwhile_is_not_lost(play: Play) -> None:
    assert play(overtaken((ROUND_TRIP + 10, ARRIVES, 0), (10**6, NOTHING, 0)))[-1] == (-1, NEVER)


def test_of_packets_that_left_at_once_the_number_says_which_was_first(play: Play) -> None:
    assert play(overtaken((10**6, NOTHING, 0)))[-1] == (0, NEVER), "0 is lost; 2 may be on its way"


def test_what_left_again_is_missing_from_then_on(play: Play) -> None:
    """It is lost a second time only if a packet that left after it arrives."""
    due = ROUND_TRIP + ROUND_TRIP // 4
    again = overtaken((due, NOTHING, 0), (due, LEAVES, 0), (due, ARRIVES, 2))
    assert play([*again, (10**6, NOTHING, 0)])[-1] == (-1, NEVER)
    later = [(due + 1, LEAVES, 3), (due + 1 + ROUND_TRIP, ARRIVES, 3)]
    assert play([*again, *later])[-1] == (-1, due + ROUND_TRIP + ROUND_TRIP // 4)


@pytest.mark.parametrize("duplicates", [1, 2, 3])
def test_each_round_trip_with_a_duplicate_widens_the_window(play: Play, duplicates: int) -> None:
    """It widens by a quarter of the minimum round trip, but never beyond the smoothed one."""
    told = [(ROUND_TRIP, ARRIVES_AGAIN, 0, 10 * k, 10 * k + 10) for k in range(duplicates)]
    assert play(overtaken(*told, (ROUND_TRIP, NOTHING, 0)))[-1] == (
        -1,
        ROUND_TRIP + (1 + duplicates) * ROUND_TRIP // 4,
    )


def test_a_second_duplicate_of_a_round_trip_changes_nothing(play: Play) -> None:
    told = [(ROUND_TRIP, ARRIVES_AGAIN, 0, una, 10) for una in range(10)]
    assert play(overtaken(*told))[-1] == (-1, ROUND_TRIP + 2 * ROUND_TRIP // 4)


def test_the_window_ends_at_the_smoothed_round_trip(play: Play) -> None:
    told = [(ROUND_TRIP, ARRIVES_AGAIN, 0, k, k + 1) for k in range(1000)]
    assert play(overtaken(*told))[-1] == (-1, 2 * ROUND_TRIP)


@pytest.mark.parametrize(("recoveries", "steps"), [(15, 2), (16, 1)])
def test_sixteen_recoveries_without_a_duplicate_narrow_it_again(
    play: Play, recoveries: int, steps: int
) -> None:
    told = [(ROUND_TRIP, ARRIVES_AGAIN, 0, 0, 1), *[(ROUND_TRIP, RECOVERY_ENDS)] * recoveries]
    assert play(overtaken(*told))[-1] == (-1, ROUND_TRIP + steps * ROUND_TRIP // 4)


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
