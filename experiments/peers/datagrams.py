# SPDX-License-Identifier: Apache-2.0
"""Datagrams at a level, and their latencies: `send ADDRESS LEVEL BEGIN LATE TIME...` and `receive`.

Experiment `qjump_testbed` runs it. BEGIN is a file that appears, with the nanoseconds of the Unix epoch from which each
TIME counts. `send` leaves out what it could send only LATE nanoseconds after its time or later, because the limit of
its level holds back what is sent in a row. Both print "ready". At its end, `send` prints how many it sent. `receive`
prints for each datagram the nanoseconds from before its send() to the kernel's time stamp of its arrival.
"""

import os
import socket
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path

PORT = 9009
FULL_BYTES = 1514 - 42
"""Payload of a full frame."""
SO_TIMESTAMPNS = 35


def send(address: str, level: int, begin: Path, late_ns: int, times_ns: list[int]) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, level)
        out.connect((address, PORT))
        print("ready", flush=True)
        while not begin.exists():
            time.sleep(0.01)
        begin_ns, sent = int(begin.read_text()), 0
        for due_ns in times_ns:
            time.sleep(max(0, begin_ns + due_ns - time.time_ns()) / 1e9)
            now_ns = time.time_ns()
            if now_ns < begin_ns + due_ns + late_ns:
                out.send(struct.pack("!q", now_ns).ljust(FULL_BYTES, b"\0"))
                sent += 1
    return sent


def receive() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as inbox:
        inbox.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        inbox.bind(("", PORT))
        print("ready", flush=True)
        while True:
            payload, [(_, _, stamp)], _, _ = inbox.recvmsg(FULL_BYTES, 64)
            seconds, ns = struct.unpack("qq", stamp)
            print(seconds * 10**9 + ns - struct.unpack_from("!q", payload)[0], flush=True)


if __name__ == "__main__":
    mode, *words = sys.argv[1:]
    if mode == "receive":
        receive()
    else:
        with suppress(PermissionError):  # so that the bursts of all hosts meet on a busy machine, too
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        sent = send(words[0], int(words[1]), Path(words[2]), int(words[3]), [int(word) for word in words[4:]])
        # In real time, the end of a process would hold up the switch.
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        print(sent)
