# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from pathlib import Path

import pytest

from experiments.kit import port_gaps
from sluice.runtime.wait import wait_until

DEV = """Inter-|   Receive                                         |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0    0
s1-eth1:   2042    6434    0    0    0     0          0         0  {bytes} {packets}  0    0    0     0       0    0
"""


def test_sent_packets__of_the_interface() -> None:
    assert port_gaps.sent_packets(DEV.format(bytes=10**9, packets=77), "s1-eth1") == 77


def test_port_gaps__sees_the_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "dev"
    file.write_text(DEV.format(bytes=0, packets=0))
    watch = port_gaps.PortGaps(1, "s1-eth1")
    monkeypatch.setattr(watch, "_file", file)
    fresh = tmp_path / "fresh"

    def send(packets: int) -> None:
        fresh.write_text(DEV.format(bytes=0, packets=packets))
        fresh.replace(file)

    def seen() -> bool:
        time.sleep(0.2)
        sent.append(len(sent))
        send(len(sent))
        return bool(watch.gaps)

    sent: list[int] = []
    with watch:
        wait_until(seen, "the gap is seen")
    assert watch.looks.longest_gap_s == watch.gaps[0].length_s


def test_looks__a_gap_is_as_long_as_the_port_was_seen_standing_still() -> None:
    looks = port_gaps.Looks()
    found = [
        looks.take(packets, at_s)
        for packets, at_s in [(5, 0.0), (5, 9.0), (6, 9.1), (6, 9.2), (6, 9.6), (7, 9.7)]
    ]
    assert found[:5] == [None] * 5, "what came before the first packet is no gap"
    assert found[5] == looks.longest_gap_s == pytest.approx(0.5)


def test_looks__a_look_that_comes_late_makes_no_gap_but_is_told() -> None:
    looks = port_gaps.Looks()
    for packets, at_s in [(1, 0.0), (2, 0.1), (900, 1.1), (901, 1.2)]:
        looks.take(packets, at_s)
    assert looks.longest_gap_s == 0
    assert looks.longest_without_s == pytest.approx(1.0)
