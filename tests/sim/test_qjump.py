# SPDX-License-Identifier: Apache-2.0
"""QJUMP in closed form: what a host may send in an epoch, by level, and the latency that this bounds."""

from typing import Any

import numpy as np
import pytest

from sluice.policy.schemes.epochs import network_epoch_ns
from sluice.simulator import _fabric as core
from tests.sim import kit
from tests.sim.kit import FRAME, GBIT, HEADER, NS, PAYLOAD, US, Link, serialisation

RATE = 10 * GBIT
DELAY = US
FULL = serialisation(FRAME, RATE)
ACROSS = 2 * (FULL + DELAY)
"""From a packet's start until it has arrived, through one switch."""
EPOCH = 100 * FULL
LEVELS = 8
LAST = 8


def network(
    frames: list[int], hosts: int = 4, epoch_ps: int = EPOCH, down: dict[str, Any] | None = None, **up: Any
) -> kit.Net:
    """Hosts on one switch that may send so many frames in an epoch at level 1, 2 and so on. Level i is transport i."""
    of_host = {"epoch_ps": epoch_ps, "level_bytes": level_bytes(frames), **up}
    settings = kit.transport(control=core.Control.reno, echo=core.Echo.none, initial_window=1000)
    net = kit.single(
        hosts, settings, up=Link(RATE, DELAY, more=of_host), down=Link(RATE, DELAY, more=down or {})
    )
    for port in range(2 * hosts):
        net.fabric.set_queue_of(port, [7, *[min(level, LEVELS - 1) for level in range(kit.TAGS - 1)]])
    for level in range(1, LEVELS + 1):
        settings.tags, settings.fixed_tag = False, level
        assert net.fabric.add_transport(settings) == level
    return net


def level_bytes(frames: list[int]) -> list[int]:
    return [count * FRAME for count in frames] + [0] * (LEVELS - 1 - len(frames))


@pytest.mark.parametrize("level", range(1, LEVELS + 1))
def test_alone__a_message_of_one_frame_waits_for_nothing(level: int) -> None:
    net = network([1] * 7)
    net.flow(0, 1, PAYLOAD, transport=level)
    assert net.fct_ps() == [ACROSS]


@pytest.mark.parametrize("factor", [1, 3, 7])
@pytest.mark.parametrize("packets", [1, 2, 20, 21])
def test_limiter__lets_its_factor_of_frames_pass_in_each_epoch(factor: int, packets: int) -> None:
    net = network([factor])
    net.flow(0, 1, packets * PAYLOAD, transport=1)
    epochs, rest = divmod(packets - 1, factor)
    assert net.fct_ps() == [epochs * EPOCH + rest * FULL + ACROSS]


def test_limiter__all_flows_of_a_host_at_a_level_share_it() -> None:
    net = network([1])
    net.add(bytes=[5 * PAYLOAD] * 4, start_ps=[0] * 4, source=[0] * 4, sink=[1, 2, 3, 1], transport=[1] * 4)
    assert max(net.fct_ps()) == 19 * EPOCH + ACROSS


def test_limiter__other_levels_and_other_hosts_have_their_own() -> None:
    net = network([1, 2])
    net.add(bytes=[4 * PAYLOAD] * 3, start_ps=[0] * 3, source=[0, 0, 1], sink=[3, 3, 2], transport=[1, 2, 1])
    first, second, other = net.fct_ps()
    assert first == other == 3 * EPOCH + ACROSS
    assert second == EPOCH + 2 * FULL + ACROSS  # behind the other level's frame of the second epoch


def test_limiter__the_last_level_has_none() -> None:
    net = network([1])
    net.flow(0, 1, 500 * PAYLOAD, transport=LAST)
    assert net.fct_ps() == [499 * FULL + ACROSS]


def test_limiter__acks_count_at_the_level_of_their_flow() -> None:
    """In each epoch, one frame arrives at host 1. Its ACK takes so much that a frame of host 1 no longer fits."""
    net = network([1])
    net.flow(0, 1, PAYLOAD, transport=1)
    late = net.flow(1, 2, PAYLOAD, 2 * ACROSS, transport=1)
    assert net.fct_ps()[late] == EPOCH - 2 * ACROSS + ACROSS
    net = network([1])
    net.flow(0, 1, PAYLOAD, transport=1)
    small = net.flow(1, 2, PAYLOAD - HEADER, 2 * ACROSS, transport=1)
    assert net.fct_ps()[small] == 2 * (serialisation(FRAME - HEADER, RATE) + DELAY)


def test_limiter__a_frame_longer_than_the_limit_has_an_epoch_of_its_own() -> None:
    net = network([], level_bytes=[100] + [0] * 6)
    net.flow(0, 1, 5 * PAYLOAD, transport=1)
    assert net.fct_ps() == [4 * EPOCH + ACROSS]


def test_limiter__drops_what_its_buffer_cannot_hold() -> None:
    net = kit.single(
        2,
        kit.transport(initial_window=10, tags=False, fixed_tag=1),
        up=Link(
            RATE, DELAY, buffer_bytes=4 * FRAME, more={"epoch_ps": EPOCH, "level_bytes": level_bytes([1])}
        ),
    )
    net.flow(0, 1, 10 * PAYLOAD)
    net.run(EPOCH // 2)
    assert net.port(0).packets == 1
    assert net.port(0).dropped == 5
    assert net.fct_ps()


def test_limiter__a_change_lets_go_what_waits() -> None:
    net = network([1])
    net.flow(0, 1, 50 * PAYLOAD, transport=1)
    net.run(EPOCH // 2)
    net.fabric.change_port(0, Link(RATE, DELAY).settings(), core.Discipline())
    assert net.fct_ps() == [EPOCH // 2 + 48 * FULL + ACROSS]


def test_limiter__a_change_of_the_limit_holds_from_the_next_epoch_on() -> None:
    net = network([1])
    net.flow(0, 1, 50 * PAYLOAD, transport=1)
    net.run(EPOCH // 2)
    more = {"epoch_ps": EPOCH, "level_bytes": level_bytes([7])}
    net.fabric.change_port(0, Link(RATE, DELAY, more=more).settings(), core.Discipline())
    # One and six more in the first epoch, and seven in each of the next six, then one.
    assert net.fct_ps() == [7 * EPOCH + ACROSS]


def test_limiter__tells_a_sender_with_small_queues_when_its_packets_leave() -> None:
    """A socket keeps what its host does not take. It must not sleep while the host's packets wait for an epoch."""
    net = network([1], tells_hosts=True)
    settings = kit.transport(
        initial_window=4, tags=False, fixed_tag=1, small_queues=True, echo=core.Echo.none
    )
    number = net.fabric.add_transport(settings)
    net.flow(0, 1, 40 * PAYLOAD, transport=number)
    assert net.fct_ps() == [39 * EPOCH + ACROSS]


def test_ports__serve_the_levels_strictly() -> None:
    """Hosts 0 to 6 send bursts at levels 1 to 7 to host 7, and host 8 floods it: levels end in their order."""
    net = network([], hosts=9, epoch_ps=0)
    net.flow(8, 7, 400 * PAYLOAD, transport=LAST)
    for level in range(1, 8):
        net.flow(level - 1, 7, 50 * PAYLOAD, 10 * FULL, transport=level)
    flood, *others = net.fct_ps()
    assert others == sorted(others)
    assert others[0] <= 49 * FULL + ACROSS + FULL
    assert flood > others[-1]


@pytest.mark.parametrize("hosts", [4, 8, 32])
@pytest.mark.parametrize("shift_ps", [0, 1, FULL // 2, FULL - 1])
def test_bound__holds_in_the_worst_case_and_is_nearly_reached(hosts: int, shift_ps: int) -> None:
    """All hosts flood one at the last level. At the turn of two epochs, each sends it two frames at level 1."""
    epoch_ps = network_epoch_ns(hosts, RATE, ACROSS / US, switches=1) * NS
    net = network([1], hosts, epoch_ps, down={"count_queues": True})
    senders, sink = hosts - 1, hosts - 1
    floods = 6 * epoch_ps // FULL
    net.add(
        bytes=[floods * PAYLOAD] * senders,
        start_ps=[0] * senders,
        source=range(senders),
        sink=[sink] * senders,
        transport=[LAST] * senders,
    )
    turn = 2 * epoch_ps
    for start in (turn - FULL + shift_ps, turn + shift_ps % FULL):
        net.add(
            bytes=[PAYLOAD] * senders,
            start_ps=[start] * senders,
            source=range(senders),
            sink=[sink] * senders,
            transport=[1] * senders,
        )
    net.run(4 * epoch_ps)
    done = net.results()
    assert done["id"].tolist() == list(range(senders, 3 * senders))
    worst = int(np.max(done["fct_ps"]))
    assert worst <= epoch_ps - FULL
    assert worst >= epoch_ps - 3 * FULL
    assert epoch_ps == pytest.approx((2 * hosts + 2) * FULL + 2 * DELAY, abs=2 * NS)
    assert net.port(net.towards[sink]).waiting_bytes > 0  # the flood goes on


def test_bound__without_the_limit_more_frames_exceed_it() -> None:
    """Six frames of each host at once: with the limit, one of each leaves in the first epoch."""
    hosts = 8
    epoch_ps = network_epoch_ns(hosts, RATE, ACROSS / US, switches=1) * NS
    worst = {}
    for frames in ([1], []):
        net = network(frames, hosts, epoch_ps if frames else 0)
        net.add(
            bytes=[PAYLOAD] * 7 * 6,
            start_ps=[epoch_ps] * 7 * 6,
            source=[*range(7)] * 6,
            sink=[7] * 7 * 6,
            transport=[1] * 7 * 6,
        )
        net.run((2 if frames else 4) * epoch_ps)
        worst[bool(frames)] = int(np.max(net.results()["fct_ps"]))
    assert worst[True] < epoch_ps < worst[False]
