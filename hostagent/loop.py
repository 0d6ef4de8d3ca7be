# SPDX-License-Identifier: Apache-2.0
"""A small event loop for one thread: epoll, and timers of microsecond precision.

asyncio does not fit here: its streams cost several times as much as the system calls that they wrap.
Its epoll_wait rounds timeouts to milliseconds, so flows would start only at whole milliseconds.
"""

import heapq
import itertools
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from sluice.policy.units import NS_PER_S

Handler = Callable[[int], object]

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
_MAX_WAIT_S = 1.0


class Loop:
    """An event loop. `stop` ends `run` from a handler, a timer, another thread or a signal handler."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._stopped = False
        self._wake_writer, self._wake_reader = socket.socketpair()
        self._wake_writer.setblocking(False)
        self._wake_reader.setblocking(False)
        self.add(self._wake_reader.fileno(), READ, lambda _: self._wake_reader.recv(4096))

    @property
    def wake_fd(self) -> int:
        """A file descriptor for signal.set_wakeup_fd: a write to it wakes the loop."""
        return self._wake_writer.fileno()

    def add(self, fd: int, events: int, handler: Handler) -> None:
        """Call handler(events) on each of `events`, and on an error or a hang-up."""
        self._handlers[fd] = handler
        self._epoll.register(fd, events)

    def change(self, fd: int, events: int) -> None:
        """Wait for other events of a file."""
        self._epoll.modify(fd, events)

    def remove(self, fd: int) -> None:
        """Stop watching a file. Call this before closing it."""
        self._epoll.unregister(fd)
        del self._handlers[fd]

    def call_at(self, when_ns: int, action: Callable[[], None]) -> None:
        """Run `action` once CLOCK_MONOTONIC has reached `when_ns`."""
        heapq.heappush(self._timers, (when_ns, next(self._order), action))

    def stop(self) -> None:
        """End `run` after the current round. Any thread may call this."""
        self._stopped = True
        with suppress(BlockingIOError):  # the socket is full, so a wake-up is pending
            self._wake_writer.send(b"\0")

    def run(self) -> None:
        """Serve until stopped. A handler's exception ends the loop, because it is a bug."""
        while not self._stopped:
            timeout_s = _MAX_WAIT_S
            if self._timers:
                timeout_s = min(max(0.0, (self._timers[0][0] - time.monotonic_ns()) / NS_PER_S), timeout_s)
            if timeout_s:
                # Wait with select() on the epoll file, because its timeout has microseconds.
                select.select([self._epoll.fileno()], [], [], timeout_s)
            for fd, events in self._epoll.poll(0):
                handler = self._handlers.get(fd)
                if handler is not None:  # an earlier handler of the same round may have removed it
                    handler(events)
            while self._timers and self._timers[0][0] <= time.monotonic_ns():
                heapq.heappop(self._timers)[2]()
