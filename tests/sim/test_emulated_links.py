# SPDX-License-Identifier: Apache-2.0
"""Emulated links in closed form, to the picosecond.

A link is a bucket of b frames that starts full. T is a frame's time at the rate, d the delay. A packet takes no time on
such a link, but packet i of a burst waits for max(0, i - b) T.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sim import kit
from tests.sim.kit import FRAME, GBIT, MS, NO_BOUND, PAYLOAD, US, Link, serialisation

RATE = 10 * GBIT
T, DELAY = serialisation(FRAME, RATE), US
AT_ONCE = Link(RATE, DELAY, more={"burst_bytes": 1000 * FRAME})
WINDOW = 100


def bucket(frames: int, buffer_bytes: int = NO_BOUND, **more: Any) -> Link:
    return Link(RATE, DELAY, buffer_bytes=buffer_bytes, more={"burst_bytes": frames * FRAME, **more})


@pytest.mark.parametrize("frames", [1, 2, 7, 60])
@pytest.mark.parametrize("packets", [1, 2, 3, 30])
def test_a_lone_flow_waits_for_tokens_only(frames: int, packets: int) -> None:
    """FCT = max(0, n - 1 - b) T + d over one link. A second link whose bucket is no smaller adds only its delay."""
    for links in ([bucket(frames)], [bucket(frames), bucket(frames + 5)]):
        net = kit.chain(links, kit.transport(initial_window=WINDOW))
        net.flow(0, 1, packets * PAYLOAD)
        result = net.finish()
        assert result["fct_ps"].tolist() == [max(0, packets - 1 - frames) * T + len(links) * DELAY]
        net.assert_nothing_left()


@pytest.mark.parametrize("pause_frames", [0, 3, 100])
def test_a_bucket_fills_at_the_rate_while_nothing_is_sent(pause_frames: int) -> None:
    """A burst of n > b packets empties the bucket. A second burst t later finds min(b, t / T) frames in it."""
    frames, packets = 8, 20
    net = kit.chain([bucket(frames)], kit.transport(initial_window=WINDOW))
    empty = (packets - frames) * T
    net.flow(0, 1, packets * PAYLOAD)
    net.flow(0, 1, packets * PAYLOAD, empty + pause_frames * T)
    first, second = net.finish()["fct_ps"].tolist()
    assert first == (packets - 1 - frames) * T + DELAY
    assert second == (packets - 1 - min(frames, pause_frames)) * T + DELAY


@pytest.mark.parametrize("frames", [1, 4, 16])
def test_two_flows_have_the_rate_together(frames: int) -> None:
    """Of 2 n packets at once, the last one leaves when the bucket has its tokens."""
    packets = 40
    net = kit.single(3, kit.transport(initial_window=WINDOW), up=AT_ONCE, down=bucket(frames))
    for source in (0, 1):
        net.flow(source, 2, packets * PAYLOAD)
    result = net.finish()
    assert result["fct_ps"].max() == (2 * packets - 1 - frames) * T + 2 * DELAY


@pytest.mark.parametrize("frames", [1, 4, 16])
def test_long_flows_have_the_rate(frames: int) -> None:
    net = kit.single(3, kit.transport(), up=bucket(2), down=bucket(frames, mark_bytes=30 * FRAME))
    for source in (0, 1):
        net.flow(source, 2, 10**9, until_ps=50 * MS)
    net.run(10 * MS)
    before = net.port(net.towards[2]).bytes
    net.run(50 * MS)
    assert (net.port(net.towards[2]).bytes - before) * 8 == pytest.approx(RATE * 0.04, rel=1e-3)


@pytest.mark.parametrize("frames", [1, 4, 16])
def test_marks_and_drops_go_by_the_virtual_queue(frames: int) -> None:
    """Packets that left on credit still count. Of n packets at once, those from the K-th on are
    marked. Those that the buffer would not hold are dropped."""
    packets, marks_from, holds = 40, 12, 30
    limits = {"buffer_bytes": holds * FRAME, "mark_bytes": marks_from * FRAME}
    net = kit.single(
        2, kit.transport(initial_window=WINDOW, rto_min_ps=MS), up=AT_ONCE, down=bucket(frames, **limits)
    )
    net.flow(0, 1, packets * PAYLOAD)
    net.run(DELAY)
    port = net.port(net.towards[1])
    assert port.marked == holds - 1 - marks_from
    assert port.dropped == packets - holds
    assert port.packets == frames + 1
    assert net.finish()["delivered_bytes"].tolist() == [packets * PAYLOAD]


@pytest.mark.parametrize("frames", [1, 16])
def test_priorities_are_served_in_order_of_the_tokens(frames: int) -> None:
    """While the bucket is empty, the first priority is served first."""
    net = kit.single(
        3, kit.transport(initial_window=WINDOW, tags_deadlines=True), up=AT_ONCE, down=bucket(frames)
    )
    net.fabric.set_queue_of(net.towards[2], kit.priority_map())
    packets = 50
    net.flow(0, 2, packets * PAYLOAD, **kit.as_priority(7, 0))
    net.flow(1, 2, packets * PAYLOAD, **kit.as_priority(0, 0))
    late, soon = net.finish()["fct_ps"].tolist()
    assert late == (2 * packets - 1 - frames) * T + 2 * DELAY
    assert soon <= (packets + frames) * T + 2 * DELAY < late
    assert np.diff([soon, late]) >= (packets - 2 * frames - 2) * T
