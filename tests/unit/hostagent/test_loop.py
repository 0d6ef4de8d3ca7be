# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from sluice.hostagent.loop import READ, Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    loop.call_at(time.monotonic_ns() + 20 * 10**9, lambda: pytest.fail("the loop should have been stopped"))
    yield loop
    loop.close()


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


def test_handlers_see_their_events_until_removed(loop: Loop) -> None:
    a, b = socket.socketpair()
    seen = []

    def read(events: int) -> None:
        seen.append((events, b.recv(10)))
        loop.remove(b.fileno())
        loop.stop()

    loop.add(b.fileno(), READ, read)
    a.send(b"x")
    loop.run()
    assert seen == [(READ, b"x")]


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


def test_stop__from_another_thread(loop: Loop) -> None:
    threading.Thread(target=loop.stop).start()
    loop.run()


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


def test_stop__after_the_loop_has_closed_its_files() -> None:
    """Another thread may see the end of the loop late."""
    loop = Loop()
    loop.close()
    loop.stop()
    loop.run()
