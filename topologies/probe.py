# SPDX-License-Identifier: Apache-2.0
"""UDP traffic with a chosen tag, and a count of what arrives. `sluice doctor` and the network tests use it.

    python -m sluice.topologies.probe send 10.0.0.2 --tags 7 8 --ecn 2 --count 100 --bytes 1000
    python -m sluice.topologies.probe receive --idle-s 0.5

`send` ends by itself. `receive` prints "ready". Once it has SIGUSR1 and packets stop, it prints one line of JSON
(`Received`) and ends.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

PORT = 5201
HEADER_BYTES = {socket.AF_INET: 14 + 20 + 8, socket.AF_INET6: 14 + 40 + 8}
"""Ethernet, IP and UDP in front of the payload: what the queues count."""

FIRST_PACKET_S = 10.0
_RECEIVE_BYTES = 8 << 20
_TOS_MESSAGES = {(socket.IPPROTO_IP, socket.IP_TOS), (socket.IPPROTO_IPV6, socket.IPV6_TCLASS)}
_SO_RCVBUFFORCE = 33


@dataclass
class Received:
    """What arrived."""

    packets: int = 0
    frame_bytes: int = 0
    """With headers, without the first packet, so that these bytes belong to the time span."""
    first_ns: int = 0
    last_ns: int = 0
    tos: dict[int, int] = field(default_factory=dict)
    """Packets by the whole TOS byte (DSCP and ECN)."""

    @property
    def rate_bps(self) -> float:
        """The rate between the first and the last packet."""
        return self.frame_bytes * 8e9 / max(self.last_ns - self.first_ns, 1)

    @classmethod
    def from_json(cls, line: str) -> Received:
        document = json.loads(line)
        document["tos"] = {int(tos): count for tos, count in document["tos"].items()}
        return cls(**document)


def family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def send(
    address: str, *, tags: Sequence[int], ecn: int, size_bytes: int, count: int, for_s: float, pause_s: float
) -> int:
    """Send datagrams with the tags in turn, until `count` are sent or the time is over. Returns how many.

    Without a pause, the host's own queue sets the rate, because the socket blocks when the queue is full.
    """
    family = family_of(address)
    with socket.socket(family, socket.SOCK_DGRAM) as out:
        out.connect((address, PORT))
        payload, sent, end = bytes(size_bytes), 0, time.monotonic() + for_s
        while sent < count and time.monotonic() < end:
            if sent < len(tags) or len(tags) > 1:
                set_tos(out, tags[sent % len(tags)] << 2 | ecn)
            try:
                out.send(payload)
            except ConnectionRefusedError:
                continue  # where nobody listens, an answer to an earlier packet takes the place of this send
            sent += 1
            if pause_s:
                time.sleep(pause_s)
    return sent


def set_tos(out: socket.socket, tos: int) -> None:
    """Set DSCP and ECN of the packets that a socket sends."""
    if out.family == socket.AF_INET:
        out.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
    else:
        out.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, tos)


def receive(idle_s: float) -> Received:
    """Count packets until SIGUSR1 has come and no packet comes for `idle_s`. Raises TimeoutError without a packet."""
    all_sent = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: all_sent.set())
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as inbox:
        inbox.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BYTES)
        inbox.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        inbox.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
        inbox.bind(("::", PORT))
        print("ready", flush=True)
        inbox.settimeout(FIRST_PACKET_S)
        return _tally(inbox, idle_s, all_sent)


def _tally(inbox: socket.socket, idle_s: float, all_sent: threading.Event) -> Received:
    seen = Received()
    for size_bytes, tos, header_bytes in _datagrams(inbox, all_sent):
        seen.last_ns = time.monotonic_ns()
        seen.packets += 1
        seen.tos[tos] = seen.tos.get(tos, 0) + 1
        if seen.packets == 1:
            seen.first_ns = seen.last_ns
            inbox.settimeout(idle_s)
        else:
            seen.frame_bytes += size_bytes + header_bytes
    if not seen.packets:
        raise TimeoutError(f"no packet within {FIRST_PACKET_S:.0f} s")
    return seen


def _datagrams(inbox: socket.socket, all_sent: threading.Event) -> Iterator[tuple[int, int, int]]:
    """Yield payload size, TOS byte and header size of each datagram, until a timeout of the socket after `all_sent`."""
    while True:
        try:
            payload, control, _, source = inbox.recvmsg(2048, 64)
        except TimeoutError:
            if all_sent.is_set():
                return
            continue
        tos_bytes = (value for level, kind, value in control if (level, kind) in _TOS_MESSAGES)
        tos = int.from_bytes(next(tos_bytes, b""), sys.byteorder)
        family = socket.AF_INET if source[0].startswith("::ffff:") else socket.AF_INET6
        yield len(payload), tos, HEADER_BYTES[family]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sluice.topologies.probe")
    modes = parser.add_subparsers(dest="mode", required=True)
    sender = modes.add_parser("send")
    sender.add_argument("address")
    sender.add_argument("--tags", type=int, nargs="+", default=[0])
    sender.add_argument("--ecn", type=int, default=0)
    sender.add_argument("--bytes", type=int, default=1000, dest="size_bytes", metavar="BYTES")
    sender.add_argument("--count", type=int, default=1 << 40)
    sender.add_argument("--for-s", type=float, default=30.0)
    sender.add_argument("--pause-s", type=float, default=0.0)
    receiver = modes.add_parser("receive")
    receiver.add_argument("--idle-s", type=float, default=0.5)
    given = vars(parser.parse_args())
    if given.pop("mode") == "receive":
        print(json.dumps(asdict(receive(**given))), flush=True)
    else:
        print(send(**given))


if __name__ == "__main__":
    main()
