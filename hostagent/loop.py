# SPDX-License-Identifier: Apache-2.0
"""A small event loop: epoll and timers of microsecond precision, one thread.

asyncio's streams cost several times the system calls they wrap, and epoll_wait rounds its timeout to milliseconds,
which would put the flows' starts on a grid.
"""

from __future__ import annotations

import heapq
import itertools
import select
import socket
import time
from collections.abc import Callable

from policy.units import NS_PER_S

Handler = Callable[[int], None]

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
_MAX_WAIT_S = 1.0


class Loop:
    """Call `run`; end it with `stop`, from a handler, a timer or (through `wake`) another thread or a signal."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._stopped = False
        self._waker, self._wakened = socket.socketpair()
        self._waker.setblocking(False)
        self._wakened.setblocking(False)
        self.add(self._wakened.fileno(), READ, lambda _: self._swallow())

    @property
    def wake_fd(self) -> int:
        """Writing to it wakes the loop: for signal.set_wakeup_fd."""
        return self._waker.fileno()

    def add(self, fd: int, events: int, handler: Handler) -> None:
        """Call handler(events) whenever one of `events`, an error or a hang-up is there."""
        self._handlers[fd] = handler
        self._epoll.register(fd, events)

    def change(self, fd: int, events: int) -> None:
        self._epoll.modify(fd, events)

    def remove(self, fd: int) -> None:
        """Before the file is closed."""
        self._epoll.unregister(fd)
        del self._handlers[fd]

    def call_at(self, when_ns: int, action: Callable[[], None]) -> None:
        """Run `action` once CLOCK_MONOTONIC has reached `when_ns`."""
        heapq.heappush(self._timers, (when_ns, next(self._order), action))

    def stop(self) -> None:
        self._stopped = True
        self._wake()

    def run(self) -> None:
        """Serve until stopped. An exception of a handler ends the loop: it is a bug."""
        while not self._stopped:
            self._wait()
            for fd, events in self._epoll.poll(0):
                handler = self._handlers.get(fd)
                if handler is not None:  # an earlier handler of this round may have removed it
                    handler(events)
            self._run_timers()

    def close(self) -> None:
        self._epoll.close()
        self._waker.close()
        self._wakened.close()

    def _wait(self) -> None:
        timeout_s = _MAX_WAIT_S
        if self._timers:
            timeout_s = min(max(0.0, (self._timers[0][0] - time.monotonic_ns()) / NS_PER_S), timeout_s)
        if timeout_s:
            # select() on the epoll file, because its timeout counts microseconds.
            select.select([self._epoll.fileno()], [], [], timeout_s)

    def _run_timers(self) -> None:
        while self._timers and self._timers[0][0] <= time.monotonic_ns():
            heapq.heappop(self._timers)[2]()

    def _wake(self) -> None:
        try:
            self._waker.send(b"\0")
        except BlockingIOError:
            return  # a wake-up is pending already

    def _swallow(self) -> None:
        try:
            while self._wakened.recv(4096):
                pass
        except BlockingIOError:
            return
