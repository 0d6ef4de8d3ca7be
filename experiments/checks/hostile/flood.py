# SPDX-License-Identifier: Apache-2.0
"""Sends full frames at a fixed rate past the host's own tagger: `python flood.py KIND INTERFACE FROM TO FRAMES_PER_S`.

FROM and TO are addresses, each as MAC,IPV4. A raw socket with PACKET_QDISC_BYPASS sends them, so that neither the
tagger nor a queue of the host sees them. The program imports nothing of the project, as a hostile one would not.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

SOL_PACKET, PACKET_QDISC_BYPASS = 263, 20
"""Of linux/socket.h and linux/if_packet.h."""
FRAME_BYTES = 1514
UDP, WITHOUT_PORTS = 17, 253
LATER_FRAGMENT = 0x2000 | 185
"""More fragments follow; this one begins at byte 1480."""
KINDS = {
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


def checksum(header: bytes) -> int:
    total = int(sum(struct.unpack(f"!{len(header) // 2}H", header)))
    total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF ^ ((total & 0xFFFF) + (total >> 16))


def packet(kind: str, source: str, sink: str) -> bytes:
    (source_mac, source_ip), (sink_mac, sink_ip) = source.split(","), sink.split(",")
    macs = [bytes.fromhex(mac.replace(":", "")) for mac in (sink_mac, source_mac)]
    if kind in FRAMES:
        to = bytes([255] * 6) if FRAMES[kind] else macs[0]
        ether_type = b"\x08\x06" if kind == "long-arp" else b"\x88\xb5"
        return (to + macs[1] + ether_type).ljust(FRAME_BYTES, b"\0")
    dscp, protocol, fragment = KINDS[kind]
    length = FRAME_BYTES - 14
    addresses = socket.inet_aton(source_ip) + socket.inet_aton(sink_ip)
    head = struct.pack("!BBHHHBBH", 0x45, dscp << 2, length, 7, fragment, 64, protocol, 0) + addresses
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    data = struct.pack("!HHHH", 9, 9, length - 20, 0)
    return (b"".join(macs) + b"\x08\x00" + head + data).ljust(FRAME_BYTES, b"\0")


def main() -> None:
    kind, interface, source, sink, per_s = sys.argv[1:]
    data, gap_s = packet(kind, source, sink), 1 / float(per_s)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
        sender.bind((interface, 0))
        due = time.monotonic()
        while True:
            while due <= time.monotonic():
                sender.send(data)
                due += gap_s
            time.sleep(gap_s)


if __name__ == "__main__":
    main()
