# SPDX-License-Identifier: Apache-2.0
"""The host's link: its bytes, its tagger, its address, and the loop and the clocks around it."""

import random
import signal
import socket
import time
from dataclasses import dataclass, replace
from functools import partial

import pytest

from sluice.dataplane.link_queues import CLASSES, Qdisc, qdisc_at
from sluice.hostagent.link import HostLink, LinkMeter, with_rates
from sluice.hostagent.loop import READ, Loop
from sluice.hostagent.tagger import HostTagger
from sluice.hostagent.wire import DRIFT, Difference, Notice, PeerClock, PeerClocks, machine_number
from sluice.policy.wire.agents import LinkCounters
from sluice.runtime.command import run
from sluice.runtime.identity import boot
from tests.kit.known import known
from tests.unit.hostagent.agents import Cable

OURS, ROOT = 0x5C1C0000, 0xFFFFFFFF


def test_qdisc_at__finds_what_is_at_the_place() -> None:
    root, below, clsact = (
        Qdisc("htb", 0x10000, ROOT),
        Qdisc("htb", OURS, 0x10001),
        Qdisc("clsact", 0xFFFF0000, 0xFFFFFFF1),
    )
    assert qdisc_at([Qdisc("mq", 0, ROOT), Qdisc("fq_codel", 0, 1)], "root") is None, "the kernel's own"
    listing = [root, below, clsact]
    assert qdisc_at(listing, "root") == root
    assert qdisc_at(listing, "1:1") == below
    assert qdisc_at(listing, "1:2") is None
    assert qdisc_at(listing, "a:1") is None


def test_link__without_a_place_there_is_no_priority_and_no_problem() -> None:
    link = HostLink(["lo"], None)
    link.begin()
    HostTagger(["lo"], use_bpf=False, link=link).update(None)
    assert (link.name, link.problem, link.priorities((0, 1, 2))) == ("", "", ())


def test_link__a_missing_interface_is_a_problem_and_no_error() -> None:
    link = HostLink(["no-such-if"], "root")
    link.begin()
    assert "no-such-if" in link.problem
    link.end()


FIRST = LinkCounters(at=10.0, sent_bytes=1_000, received_bytes=0, dropped=0, waiting_bytes=0)


def test_with_rates__are_those_of_the_time_between_two_readings() -> None:
    second = replace(FIRST, at=10.5, sent_bytes=126_000, received_bytes=62_500)
    found = with_rates(second, FIRST)
    assert (found.sent_bps, found.received_bps) == (2_000_000, 1_000_000)


def test_meter__of_an_interface_that_has_gone_there_is_nothing() -> None:
    assert LinkMeter("no-such-if").read() is None


def test_with_rates__there_are_none_at_first_or_after_a_counter_went_back() -> None:
    assert with_rates(FIRST, None).sent_bps is None
    again = replace(FIRST, at=11.0, sent_bytes=5)
    assert with_rates(again, FIRST).sent_bps is None


def send(datagrams: int, priority: int = 0) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)
        for _ in range(datagrams):
            sender.sendto(bytes(1000), ("10.9.0.2", 9))


def test_meter__counts_what_each_queue_sends_and_what_the_link_drops() -> None:
    with Cable() as cable, cable.hosts["h1"]:
        cable.hosts["h1"].sysctl(
            "net.ipv6.conf.h1-eth0.disable_ipv6", 1
        )  # the kernel sends nothing of its own
        run(["ping", "-c", "1", "10.9.0.2"])
        HostLink(["h1-eth0"], "root").begin()
        meter = LinkMeter("h1-eth0")
        send(5, CLASSES[2])
        assert [queue.sent_bytes for queue in known(meter.read()).queues] == [0, 0, 5 * 1042, *[0] * 5]
        run(["tc", "qdisc", "replace", "dev", "h1-eth0", "root", "handle", "9:", "pfifo", "limit", "0"])
        send(3)
        counted = known(meter.read())
        assert (counted.dropped, counted.waiting_bytes, counted.queues) == (3, 0, ())


US, S = 1_000, 1_000_000_000


@dataclass
class OtherMachine:
    """A clock that is ahead of ours and runs at another speed."""

    ahead_ns: int
    speed: float = 1.0

    def at(self, now_ns: int) -> int:
        """Return its reading when ours shows `now_ns`."""
        return self.ahead_ns + round(now_ns * self.speed)

    def flow(self, clock: PeerClock, at_ns: int, fct_ns: int, held_ns: int, back_ns: int) -> Difference:
        """Let `clock` learn from a flow that takes these times."""
        arrived_ns = at_ns + fct_ns
        answered_ns = arrived_ns + held_ns
        return clock.learn(
            started_ns=at_ns,
            arrived_ns=self.at(arrived_ns),
            answered_ns=self.at(answered_ns),
            read_ns=answered_ns + back_ns,
        )


@pytest.mark.parametrize("ahead_ns", [-3600 * S, 0, 70 * US])
def test_one_flow__the_error_is_half_of_its_time_without_the_receivers_pause(ahead_ns: int) -> None:
    found = OtherMachine(ahead_ns).flow(PeerClock(), 0, fct_ns=300 * US, held_ns=S, back_ns=100 * US)
    assert found.error_ns == 200 * US
    assert found.ns == ahead_ns + 100 * US


@pytest.mark.parametrize("seed", range(2))
def test_many_flows__the_true_difference_is_within_the_error(seed: int) -> None:
    draw, clock, at_ns = random.Random(seed), PeerClock(), 0
    other = OtherMachine(draw.randrange(-S, S), speed=1 + DRIFT * draw.uniform(-0.99, 0.99))
    errors_ns = []
    for _ in range(400):
        at_ns += draw.randrange(10 * US, 5_000 * US)
        times = [
            draw.randrange(50 * US, 20_000 * US),
            draw.randrange(100 * US),
            draw.randrange(30 * US, S // 100),
        ]
        found = other.flow(clock, at_ns, *times)
        true_ns = other.at(at_ns + times[0]) - (at_ns + times[0])
        assert abs(found.ns - true_ns) <= found.error_ns + DRIFT * sum(times), (
            "the flow's own time drifts, too"
        )
        errors_ns.append(found.error_ns)
    assert min(errors_ns) < 500 * US < errors_ns[0]


def test_a_step_of_the_clock_is_forgotten_with_the_next_flow() -> None:
    clock = PeerClock()
    OtherMachine(0).flow(clock, 0, fct_ns=50 * US, held_ns=0, back_ns=50 * US)
    found = OtherMachine(2 * S).flow(clock, S, fct_ns=400 * US, held_ns=0, back_ns=400 * US)
    assert found == (2 * S, 400 * US)


def test_arrival__two_hosts_of_one_machine_have_one_clock() -> None:
    notice = Notice(1, 900, 950, machine_number(boot()))
    assert PeerClocks().arrival("192.0.2.1", 100, notice) == (900, None)


@pytest.fixture
def loop() -> Loop:
    loop = Loop()
    loop.call_at(time.monotonic_ns() + 20 * 10**9, lambda: pytest.fail("the loop should have been stopped"))
    return loop


def test_timers_run_in_order_and_not_too_early(loop: Loop) -> None:
    begin_ns = time.monotonic_ns()
    ran: list[tuple[int, int]] = []

    def run(delay_ms: int) -> None:
        ran.append((delay_ms, time.monotonic_ns() - begin_ns))

    for delay_ms in (3, 1, 2):
        loop.call_at(begin_ns + delay_ms * 10**6, partial(run, delay_ms))
    loop.call_at(begin_ns + 4 * 10**6, loop.stop)
    loop.run()
    assert [delay for delay, _ in ran] == [1, 2, 3]
    assert all(after_ns >= delay * 10**6 for delay, after_ns in ran)


def test_a_handler_removed_by_another_in_the_same_round_is_not_called(loop: Loop) -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    called = []

    def handler(number: int, events: int) -> None:
        called.append(number)
        loop.remove(pairs[1 - number][1].fileno())
        loop.stop()

    for number, (a, b) in enumerate(pairs):
        a.send(b"x")
        loop.add(b.fileno(), READ, partial(handler, number))
    loop.run()
    assert len(called) == 1


def test_stop__from_a_signal(loop: Loop) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: loop.stop())
    signal.set_wakeup_fd(loop.wake_fd)
    try:
        loop.call_at(time.monotonic_ns(), lambda: signal.raise_signal(signal.SIGUSR1))
        loop.run()
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGUSR1, before)


def test_an_exception_of_a_handler_ends_the_loop(loop: Loop) -> None:
    def broken() -> None:
        raise RuntimeError("a bug")

    loop.call_at(0, broken)
    with pytest.raises(RuntimeError, match="a bug"):
        loop.run()
