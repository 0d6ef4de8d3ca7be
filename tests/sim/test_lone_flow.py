# SPDX-License-Identifier: Apache-2.0
"""A flow alone in the network: its completion time in closed form, to the picosecond.

S_i, d_i   serialisation of a full frame on link i, its propagation delay       A_i   serialisation of an ACK
D = sum(S_i + d_i)                  from the first bit of a packet at the sender to its last one at the
receiver T = D + sum(A_i + d_i)              a round trip: from a packet's start to its ACK's arrival
S = max(S_i)                        packets that leave back to back arrive this far apart
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sluice.simulator import _fabric as core
from tests.sim import kit
from tests.sim.kit import FINISHED, FRAME, GBIT, HEADER, MS, NO_BOUND, NS, PAYLOAD, US, Link, serialisation

PATHS = {
    "one link": [Link(10 * GBIT, 20200 * NS)],
    "two equal links": [Link(10 * GBIT, 2 * US)] * 2,
    "slow, fast": [Link(10 * GBIT, 5 * US), Link(40 * GBIT, 333 * NS)],
    "fast, slow": [Link(40 * GBIT, 5 * US), Link(10 * GBIT, 333 * NS)],
    "leaf and spine": [
        Link(10 * GBIT, 20200 * NS),
        Link(40 * GBIT, 200 * NS),
        Link(40 * GBIT, 200 * NS),
        Link(10 * GBIT, 20200 * NS),
    ],
    "a rate that does not divide a second": [
        Link(3 * GBIT, 0),
        Link(7_777_777_777, 12_345),
        Link(9 * GBIT, 1),
    ],
}
anywhere = pytest.mark.parametrize("links", PATHS.values(), ids=PATHS)


def one_way(links: Sequence[Link], frame_bytes: int = FRAME) -> int:
    """Return D of a frame of this size."""
    return sum(serialisation(frame_bytes, link.bps) + link.delay_ps for link in links)


def round_trip(links: Sequence[Link]) -> int:
    """Return T."""
    return one_way(links) + one_way(links, HEADER)


def slowest(links: Sequence[Link]) -> int:
    """Return S."""
    return max(serialisation(FRAME, link.bps) for link in links)


def run(links: Sequence[Link], size_bytes: int, **settings: Any) -> int:
    """Return the completion time of the only flow. Also check what holds for every lone flow."""
    net = kit.chain(links, kit.transport(**settings))
    net.flow(0, 1, size_bytes)
    result = net.finish()
    assert result["outcome"].tolist() == [FINISHED]
    assert result["delivered_bytes"].tolist() == [size_bytes]
    assert result["retransmissions"].tolist() == [0]
    assert result["timeouts"].tolist() == [0]
    net.assert_nothing_left()
    assert net.fabric.packets_sent * len(links) == net.fabric.hops
    return int(result["fct_ps"][0])


@anywhere
@pytest.mark.parametrize("size_bytes", [1, 100, PAYLOAD - 1, PAYLOAD])
def test_one_packet(links: Sequence[Link], size_bytes: int) -> None:
    """FCT = sum(S_i(L) + d_i)."""
    assert run(links, size_bytes) == one_way(links, size_bytes + HEADER)


@anywhere
@pytest.mark.parametrize("rest", [1, 700])
def test_a_short_last_packet(links: Sequence[Link], rest: int) -> None:
    """A packet leaves link i after its predecessor has left and after it has arrived itself (Lindley's recursion)."""
    frames = kit.packets_of(5 * PAYLOAD + rest)
    ready = [0] * len(frames)
    for link in links:
        free = 0
        for i, frame in enumerate(frames):
            free = max(ready[i], free) + serialisation(frame, link.bps)
            ready[i] = free + link.delay_ps
    assert run(links, 5 * PAYLOAD + rest) == ready[-1]


def slow_start(packets: int, window: int, trip: int, spacing: int, whole: int) -> int:
    """The time of K rounds of w, 2w, 4w … packets with pauses, one every `trip`, and then r packets without a pause:

    FCT = K trip + (r - 1) spacing + whole.
    """
    rounds = 0
    while packets > window and window * spacing <= trip:
        packets -= window
        window *= 2
        rounds += 1
    return rounds * trip + (packets - 1) * spacing + whole


@anywhere
@pytest.mark.parametrize("window", [1, 10])
@pytest.mark.parametrize("packets", [2, 10, 11, 40, 1500])
def test_slow_start(links: Sequence[Link], packets: int, window: int) -> None:
    """Every ACK releases two packets, so the window doubles each round trip until the slowest link is never idle."""
    expected = slow_start(packets, window, round_trip(links), slowest(links), one_way(links))
    assert run(links, packets * PAYLOAD, initial_window=window) == expected


@anywhere
@pytest.mark.parametrize("packets", [11, 40, 151, 1500])
def test_slow_start_with_delayed_acknowledgements(links: Sequence[Link], packets: int) -> None:
    """The first ACK of a round answers its second packet, so rounds are T + S apart."""
    expected = slow_start(packets, 10, round_trip(links) + slowest(links), slowest(links), one_way(links))
    assert run(links, packets * PAYLOAD, initial_window=10, packets_per_ack=2) == expected


@anywhere
def test_a_lone_packet_waits_for_the_delayed_acknowledgement(links: Sequence[Link]) -> None:
    """With a window of 1, the first ACK waits for a second packet that does not come: FCT = T + ack_delay + D + S."""
    delay = 40 * US
    expected = round_trip(links) + delay + one_way(links) + slowest(links)
    assert run(links, 3 * PAYLOAD, initial_window=1, packets_per_ack=2, ack_delay_ps=delay) == expected


@anywhere
def test_a_delayed_acknowledgement_waits_from_the_first_packet_on(links: Sequence[Link]) -> None:
    """Two packets of three leave at once, and an ACK would answer four. It does not wait for longer because the second
    one has come: tcp_send_delayed_ack keeps the earlier time."""
    delay = 40 * US
    expected = round_trip(links) + delay + one_way(links)
    assert run(links, 3 * PAYLOAD, initial_window=2, packets_per_ack=4, ack_delay_ps=delay) == expected


@anywhere
@pytest.mark.parametrize("packets", [1, 10, 150])
def test_a_handshake_goes_before(links: Sequence[Link], packets: int) -> None:
    """SYN and SYN-ACK add 2 sum(A_i + d_i)."""
    assert run(links, packets * PAYLOAD, handshake=True) == run(links, packets * PAYLOAD) + 2 * one_way(
        links, HEADER
    )


@pytest.mark.parametrize("window", [3, 10, 30])
def test_a_bounded_window(window: int) -> None:
    """A window of w packets sends w packets each T, so FCT = floor((n - 1) / w) T + ((n - 1) mod w) S + D."""
    links = PATHS["leaf and spine"]
    rounds, rest = divmod(150 - 1, window)
    expected = rounds * round_trip(links) + rest * slowest(links) + one_way(links)
    assert run(links, 150 * PAYLOAD, initial_window=window, max_window=window) == expected


@pytest.mark.parametrize("control", ["dctcp", "ucp", "d2tcp", "datcp", "mcp", "reno", "cubic", "pfabric"])
def test_without_marks_and_losses_slow_start_is_the_same_for_all(control: str) -> None:
    links = PATHS["leaf and spine"]
    expected = slow_start(1500, 10, round_trip(links), slowest(links), one_way(links))
    assert run(links, 1500 * PAYLOAD, control=getattr(core.Control, control)) == expected


def test_across_leaves_and_spines_as_over_a_chain() -> None:
    """Spraying over four equal paths reorders nothing if a flow is alone and its host's link is the slowest."""
    links = PATHS["leaf and spine"]
    net = kit.leaf_spine(2, 4, 2, edge=links[0], core_link=links[1], spray=True)
    net.flow(0, 3, 400 * PAYLOAD)
    assert net.finish()["fct_ps"].tolist() == [run(links, 400 * PAYLOAD)]
    net.assert_nothing_left()


# Emulated links in closed form, to the picosecond.
#
# A link is a bucket of b frames that starts full. T is a frame's time at the rate, d the delay. A packet takes no time
# on such a link, but packet i of a burst waits for max(0, i - b) T.


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
