# SPDX-License-Identifier: Apache-2.0
"""Sends what a hostile host sends, past the host's own tagger: `python attacker.py KIND INTERFACE FROM TO PER_S`.

FROM and TO are addresses, each as MAC,IPV4. Frames go through a raw socket with PACKET_QDISC_BYPASS, so that neither
the tagger nor a queue of the host sees them. Floods are full frames. Forged FINs end flows that never were, with a tag
of their own. Tiny connections are real: a byte each, to a listener (`python attacker.py sink ADDRESS`). The program
imports nothing of the project, as a hostile one would not.
"""

import socket
import struct
import sys
import time
from collections.abc import Callable
from itertools import count

SOL_PACKET, PACKET_QDISC_BYPASS = 263, 20
"""Of linux/socket.h and linux/if_packet.h."""
FRAME_BYTES = 1514
UDP, WITHOUT_PORTS = 17, 253
LATER_FRAGMENT = 0x2000 | 185
"""More fragments follow; this one begins at byte 1480."""
FLOODS = {
    "background": (61, UDP, 0),
    "urgent": (56, UDP, 0),
    "first-tag": (1, UDP, 0),
    "last-tag": (40, UDP, 0),
    "no-ports": (1, WITHOUT_PORTS, 0),
    "fragments": (1, UDP, LATER_FRAGMENT),
}
"""Name → DSCP, protocol, flags and offset of IPv4 packets."""
FRAMES = {"frames": False, "broadcast": True, "long-arp": False}
"""Name → whether frames that are not IP go to everybody."""
TCP, FIN_ACK = 6, 0x11
PORT = 9099
FINS = {"small-fins": 1, "middle-fins": 27, "large-fins": 40}
"""Name → DSCP. Tag 27 is of a flow that has sent 1.3 to 1.8 MB, and tag 40 of one beyond 56 MB."""
CONNECTIONS = "tiny-connections"
FALSE_ENDS = (*FINS, CONNECTIONS)
"""Kinds that end flows."""


def checksum(data: bytes) -> int:
    total = int(sum(struct.unpack(f"!{len(data) // 2}H", data)))
    total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF ^ ((total & 0xFFFF) + (total >> 16))


def packet(kind: str, source: str, sink: str) -> bytes:
    """Return a full frame of a flood."""
    if kind in FRAMES:
        macs = _macs(source, sink)
        to = bytes([255] * 6) if FRAMES[kind] else macs[:6]
        ether_type = b"\x08\x06" if kind == "long-arp" else b"\x88\xb5"
        return (to + macs[6:] + ether_type).ljust(FRAME_BYTES, b"\0")
    dscp, protocol, fragment = FLOODS[kind]
    length = FRAME_BYTES - 14
    data = struct.pack("!HHHH", 9, 9, length - 20, 0)
    return (_head(dscp, length, fragment, protocol, source, sink) + data).ljust(FRAME_BYTES, b"\0")


def fin(dscp: int, source: str, sink: str, source_port: int) -> bytes:
    """Return a frame with a FIN of a connection that does not exist."""
    head = _head(dscp, 40, 0, TCP, source, sink)
    segment = struct.pack("!HHIIBBHHH", source_port, PORT, 1, 1, 5 << 4, FIN_ACK, 64, 0, 0)
    pseudo = head[-8:] + struct.pack("!HH", TCP, len(segment))
    return head + segment[:16] + struct.pack("!H", checksum(pseudo + segment)) + segment[18:]


def _macs(source: str, sink: str) -> bytes:
    """Return the addresses at the begin of a frame."""
    return b"".join(bytes.fromhex(place.split(",")[0].replace(":", "")) for place in (sink, source))


def _head(dscp: int, length: int, fragment: int, protocol: int, source: str, sink: str) -> bytes:
    """Return the begin of a frame, up to the end of the IPv4 header."""
    addresses = b"".join(socket.inet_aton(place.split(",")[1]) for place in (source, sink))
    head = struct.pack("!BBHHHBBH", 0x45, dscp << 2, length, 7, fragment, 64, protocol, 0) + addresses
    return _macs(source, sink) + b"\x08\x00" + head[:10] + struct.pack("!H", checksum(head)) + head[12:]


def at_rate(per_s: float, act: Callable[[int], object]) -> None:
    """Call `act` that often, for ever."""
    due = time.monotonic()
    for number in count():
        act(number)
        due += 1 / per_s
        time.sleep(max(0.0, due - time.monotonic()))


def listen(address: str) -> None:
    """Take connections, and close each when its sender has closed it."""
    with socket.create_server((address, PORT), backlog=1024) as listener:
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(1.0)
                try:
                    while connection.recv(4096):
                        pass
                except OSError:
                    pass  # the sender's fault


def connect(address: str) -> None:
    with socket.create_connection((address, PORT), timeout=1.0) as connection:
        connection.sendall(b"x")


def flood(sender: socket.socket, data: bytes, per_s: float) -> None:
    """Send a frame that often, for ever. After a delay, send at once what is due."""
    due = time.monotonic()
    while True:
        while due <= time.monotonic():
            sender.send(data)
            due += 1 / per_s
        time.sleep(1 / per_s)


def main() -> None:
    if sys.argv[1] == "sink":
        listen(sys.argv[2])
    kind, interface, source, sink, per_s = sys.argv[1:]
    if kind == CONNECTIONS:
        at_rate(float(per_s), lambda _: connect(sink.split(",")[1]))
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
        sender.bind((interface, 0))
        if kind in FINS:
            at_rate(
                float(per_s),
                lambda number: sender.send(fin(FINS[kind], source, sink, 20_000 + number % 40_000)),
            )
        flood(sender, packet(kind, source, sink), float(per_s))


if __name__ == "__main__":
    main()
