# SPDX-License-Identifier: Apache-2.0
"""The connections of the switches that the benchmark plays, in one thread.

No connection waits for another one: what the kernel does not take at once is sent when there is room.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from sluice.bench.played_switch import Record, Switch
from sluice.bench.switch_messages import message
from sluice.controller.openflow import Frame, Framer, MessageType
from sluice.runtime.wait import wait_until

_RECEIVE_BYTES = 1 << 16


class Line:
    """A connection of a switch to a controller."""

    def __init__(
        self, answer: Callable[[Frame], bytes | memoryview], port: int, received: memoryview
    ) -> None:
        """`answer`: of the switch to a message. `received`: the place for received bytes, for all connections."""
        self._answer, self._framer, self._received = answer, Framer(), received
        self._unsent: deque[memoryview] = deque()
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(message(MessageType.HELLO, 1))
        self.socket.setblocking(False)

    @property
    def events(self) -> int:
        """What the connection waits for."""
        return select.EPOLLIN | (select.EPOLLOUT if self._unsent else 0)

    def turn(self, events: int) -> bool:
        """Send and answer what is possible. Returns False once the controller has closed the connection."""
        try:
            if events & select.EPOLLOUT:
                self._send_rest()
            return not events & ~select.EPOLLOUT or self._read()
        except ConnectionError:
            return False

    def _read(self) -> bool:
        size = self.socket.recv_into(self._received)
        for frame in self._framer.feed(bytes(self._received[:size])):
            if answer := self._answer(frame):
                self._send(answer)
        return size > 0

    def _send(self, answer: bytes | memoryview) -> None:
        sent = 0 if self._unsent else self._send_now(answer)
        if sent < len(answer):
            self._unsent.append(memoryview(bytes(answer[sent:])))  # the counters may change before it is sent

    def _send_now(self, data: bytes | memoryview) -> int:
        """Return how much the kernel has taken."""
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return 0

    def _send_rest(self) -> None:
        while self._unsent:
            rest = self._unsent.popleft()
            if (sent := self._send_now(rest)) < len(rest):
                self._unsent.appendleft(rest[sent:])
                return


class Serving:
    """Switches and their connections to each controller."""

    def __init__(self, switches: list[Switch], ports: list[int]) -> None:
        self._switches = switches
        self._poll, self._lines = select.epoll(), dict[int, Line]()
        received = memoryview(bytearray(_RECEIVE_BYTES))
        for port in ports:
            wait_until(partial(_listens, port), "the controller listens", timeout_s=60)
            for switch in switches:
                line = Line(switch.answer, port, received)
                self._lines[line.socket.fileno()] = line
                self._poll.register(line.socket, line.events)

    @property
    def connected(self) -> bool:
        return bool(self._lines)

    def measure(self, seconds: float) -> list[Record]:
        for switch in self._switches:
            switch.record = Record()
        print("measuring", flush=True)
        began = time.monotonic()
        self.until(lambda: time.monotonic() - began >= seconds, seconds + 1)
        print("measured", flush=True)
        records = [switch.record for switch in self._switches]
        for switch in self._switches:
            switch.record = Record()
        return records

    def until(self, condition: Callable[[], bool], limit_s: float) -> None:
        """Answer messages until the condition holds. Raises TimeoutError after the limit."""
        deadline = time.monotonic() + limit_s
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError("the controller did not send enough polls in time")
            for descriptor, events in self._poll.poll(0.05):
                self._turn(descriptor, events)

    def _turn(self, descriptor: int, events: int) -> None:
        line = self._lines[descriptor]
        waited_for = line.events
        if not line.turn(events):
            self._poll.unregister(descriptor)
            self._lines.pop(descriptor).socket.close()
        elif line.events != waited_for:
            self._poll.modify(descriptor, line.events)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
