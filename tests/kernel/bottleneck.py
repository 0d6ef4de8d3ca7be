# SPDX-License-Identifier: Apache-2.0
"""A bottleneck of 100 Mb/s between two hosts: a router with HTB queues and the port program, and flows that fill it."""

import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sluice.dataplane.congestion import DEFAULT_CONTROL, HostEntry
from sluice.dataplane.port import PortProgram
from sluice.dataplane.port_settings import PortSettings
from tests.kernel.lab import Namespace, dial, listen, routed, tcp_info
from tests.kernel.watching import make_queues

RATE_BPS = 100_000_000
K_BYTES = 97_500
BUFFER_BYTES = 360_000
PORT = "east"
SERVER = "10.2.0.1"

TOTAL_RETRANS, DELIVERED, DELIVERED_CE = 100, 192, 196
"""Places in struct tcp_info."""


@dataclass
class Dumbbell:
    """Hosts a and b, and a router. Its port east is the bottleneck towards b."""

    a: Namespace
    router: Namespace
    b: Namespace
    ports: PortProgram


@contextmanager
def bottleneck(namespaces: list[Namespace], control: str) -> Iterator[Dumbbell]:
    """`control` is the default of both hosts."""
    a, router, b = routed(namespaces)
    for host in (a, b):
        host.sysctl("net.ipv4.tcp_ecn", 1)
        host.sysctl("net.ipv4.tcp_congestion_control", control)
    make_queues(router, PORT, RATE_BPS)
    with HostEntry() as entry, PortProgram() as ports:
        for host in (a, b):
            with host:
                entry.set(DEFAULT_CONTROL)
        with router:
            ports.attach(PORT, PortSettings(K_BYTES, BUFFER_BYTES, rate_bps=RATE_BPS))
        yield Dumbbell(a, router, b, ports)


@dataclass(frozen=True)
class Delivered:
    """A sender's counters: delivered packets, packets that the echo reported as marked, retransmissions."""

    packets: int
    marked: int
    retransmitted: int


def delivered(sender: socket.socket) -> Delivered:
    return Delivered(*(tcp_info(sender, place) for place in (DELIVERED, DELIVERED_CE, TOTAL_RETRANS)))


@dataclass
class Flows:
    """Saturating flows, which this thread drives."""

    senders: list[socket.socket]
    receivers: list[socket.socket]
    received_bytes: dict[int, int] = field(default_factory=dict)

    def run(self, duration_s: float, every: Callable[[], None] | None = None, every_s: float = 0.02) -> None:
        """Keep every sender busy and every receiver empty, and call `every` each `every_s`."""
        data, end = bytes(65536), time.monotonic() + duration_s
        due = time.monotonic()
        while (now := time.monotonic()) < end:
            readable, writable, _ = select.select(self.receivers, self.senders, [], every_s)
            for receiver in readable:
                count = len(receiver.recv(1 << 18))
                self.received_bytes[receiver.fileno()] = self.received_bytes.get(receiver.fileno(), 0) + count
            for sender in writable:
                sender.send(data)
            if every and now >= due:
                every()
                due = now + every_s

    def drain(self) -> None:
        """Stop sending and receive the data in flight."""
        for sender in self.senders:
            sender.shutdown(socket.SHUT_WR)
        for receiver in self.receivers:
            receiver.setblocking(True)
            while receiver.recv(1 << 18):
                pass

    def close(self) -> None:
        for end in (*self.senders, *self.receivers):
            end.close()


def flows(bell: Dumbbell, count: int) -> Flows:
    with listen(bell.b, SERVER) as listener:
        pairs = [dial(bell.a, listener) for _ in range(count)]
    for pair in pairs:
        pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        pair[0].setblocking(False)
        pair[1].setblocking(False)
    return Flows([p[0] for p in pairs], [p[1] for p in pairs])
