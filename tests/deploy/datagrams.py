# SPDX-License-Identifier: Apache-2.0
"""A steady stream of datagrams: `datagrams.py send ADDRESS`, `datagrams.py hear`. It needs Python alone.

`hear` prints a line for each datagram: when it arrived by the kernel's clock, and for how long before that nothing had
arrived that was sent. That is the datagram's own delay. After a loss it is the time since the sender sent the one
before the loss. So it is never shorter than the network's pause, however late the programs run.
"""

import math
import socket
import struct
import sys
import time
from collections.abc import Iterable, Iterator

PORT, INTERVAL_S = 7001, 0.004
PAYLOAD = struct.Struct("=Qd")
"""Number of the datagram, and when it was sent (epoch, s)."""
SO_TIMESTAMPNS, TIME = 35, struct.Struct("@ll")
"""Of asm-generic/socket.h: the kernel says when each datagram arrived."""


def send(to: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        number = 0
        while True:
            out.sendto(PAYLOAD.pack(number, time.time()), (to, PORT))
            number += 1
            time.sleep(INTERVAL_S)


def arrivals() -> Iterator[tuple[float, int, float]]:
    """Yield when each datagram arrived, its number, and when it was sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as coming:
        coming.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        coming.bind(("", PORT))
        while True:
            data, ((_, _, stamp),), _, _ = coming.recvmsg(PAYLOAD.size, socket.CMSG_SPACE(TIME.size))
            seconds, nanoseconds = TIME.unpack(stamp)
            yield seconds + nanoseconds / 1e9, *PAYLOAD.unpack(data)


def pauses_s(datagrams: Iterable[tuple[float, int, float]]) -> Iterator[tuple[float, float]]:
    """Yield each datagram's arrival and the pause before it."""
    last, last_sent_at = -1, math.inf
    for arrived_at, number, sent_at in datagrams:
        yield arrived_at, arrived_at - (sent_at if number == last + 1 else min(sent_at, last_sent_at))
        last, last_sent_at = number, sent_at


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(sys.argv[2])
    else:
        for arrived_at, pause_s in pauses_s(arrivals()):
            print(arrived_at, pause_s, flush=True)
