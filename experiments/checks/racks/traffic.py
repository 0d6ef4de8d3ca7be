# SPDX-License-Identifier: Apache-2.0
"""Small flows, elephants, and what receives both, on hosts and on guests. It uses no line of Sluice.

traffic.py small HOST       small flows, each after the end of the one before, for ever
traffic.py elephant HOST    connections of many bytes, one after the other, for ever
traffic.py sink INTERFACE   receive both. Write a line of JSON for each new connection (the last part of its sender's
                            address), for each small flow, and for each second

The completion time is the sender's: from connect() until the receiver has read all and closed. The next flow begins
with it, so a virtual machine needs no other way to report.
"""

import asyncio
import json
import socket
import struct
import sys
import time

PORT = 5001
SIZES_BYTES = {"small": 20_000, "elephant": 1_000_000}
PAUSE_S = {"small": 0.05, "elephant": 0.0}
WINDOW_BYTES = 32_000
"""What the receiver offers, or a little more. Two elephants then keep a queue of one length, and overflow no buffer."""
_IPV4, _TCP, _ETHERNET_BYTES = 0x0800, 6, 14


def send_for_ever(role: str, host: str) -> None:
    took_s = 0.0
    while True:
        began_s = time.monotonic()
        with socket.create_connection((host, PORT)) as connection:
            # If the process ends, its connection ends at once, and does not keep the kernel's congestion control.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(f"{took_s:.6f}\n".encode().ljust(SIZES_BYTES[role]))
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)
        took_s = time.monotonic() - began_s
        time.sleep(PAUSE_S[role])


def say(**values: float) -> None:
    print(json.dumps({"at": time.time(), **values}), flush=True)


async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    say(sender=int(writer.get_extra_info("peername")[0].rpartition(".")[2]))
    data = await reader.read(-1)
    writer.close()
    if len(data) == SIZES_BYTES["small"]:
        say(previous_s=float(data.split(b"\n")[0]))


async def sink(interface: str) -> None:
    """Receive, and count the TCP packets that arrive at the interface, and those with a DSCP."""
    packets = tagged = size_bytes = 0
    frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_IPV4))
    frames.bind((interface, _IPV4))

    def count() -> None:
        nonlocal packets, tagged, size_bytes
        head = bytearray(_ETHERNET_BYTES + 10)
        length = frames.recv_into(head, 0, socket.MSG_TRUNC)
        if head[_ETHERNET_BYTES + 9] == _TCP:
            packets, size_bytes = packets + 1, size_bytes + length
            tagged += head[_ETHERNET_BYTES + 1] >> 2 != 0

    asyncio.get_running_loop().add_reader(frames, count)
    listener = socket.create_server(("", PORT))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WINDOW_BYTES)
    await asyncio.start_server(receive, sock=listener)
    while True:
        say(packets=packets, tagged=tagged, bytes=size_bytes)
        await asyncio.sleep(1)


if __name__ == "__main__":
    if sys.argv[1] == "sink":
        asyncio.run(sink(sys.argv[2]))
    send_for_ever(*sys.argv[1:])
