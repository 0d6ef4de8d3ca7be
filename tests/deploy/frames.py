# SPDX-License-Identifier: Apache-2.0
"""Frames of other people's traffic, as they leave one machine and arrive at another. It uses no line of Sluice.

frames.py hear INTERFACE    print "ready", then a line for each frame that arrives
frames.py send INTERFACE MAC    send frames to a machine, to all, and to a group
"""

import socket
import struct
import sys
import time

MARK = b"a frame of others"
BROADCAST, GROUP = "ff:ff:ff:ff:ff:ff", "01:00:5e:01:02:03"
PAYLOAD_BYTES = 1500
FRAMES = 4
PATIENCE_S = 8.0
"""For the rest of the frames, on a busy machine."""
_ALL_PROTOCOLS, _IPV4, _VLAN = 3, 0x0800, 0x8100
_SOL_PACKET, _PACKET_AUXDATA = 263, 8
_OUTGOING, _VLAN_VALID = 4, 0x10


def packet() -> bytes:
    """An IPv4 packet (UDP) that fills an Ethernet frame."""
    body = MARK.ljust(PAYLOAD_BYTES - 28, b".")
    addresses = socket.inet_aton("10.9.0.11") + socket.inet_aton("10.9.0.12")
    head = struct.pack("!BBHHHBBH", 0x45, 0, PAYLOAD_BYTES, 0, 0x4000, 64, 17, 0) + addresses
    total = sum(struct.unpack("!10H", head))
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    head = head[:10] + struct.pack("!H", checksum) + head[12:]
    return head + struct.pack("!HHHH", 7777, 7, PAYLOAD_BYTES - 20, 0) + body


def send(interface: str, mac: str) -> None:
    frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    frames.bind((interface, 0))
    source = frames.getsockname()[4]
    for to, vlan, priority in ((mac, 10, 0), (mac, 10, 5), (BROADCAST, 10, 0), (GROUP, 0, 0)):
        tag = struct.pack("!HH", _VLAN, priority << 13 | vlan) if vlan else b""
        head = bytes.fromhex(to.replace(":", "")) + source + tag
        frames.send(head + struct.pack("!H", _IPV4) + packet())
        time.sleep(0.02)


def hear(interface: str) -> None:
    frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
    frames.bind((interface, 0))
    frames.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)  # the kernel keeps the VLAN tag beside the frame
    frames.settimeout(0.1)
    print("ready", flush=True)
    until, heard = time.monotonic() + PATIENCE_S, 0
    while heard < FRAMES and time.monotonic() < until:
        try:
            frame, extra, _, where = frames.recvmsg(65536, 256)
        except TimeoutError:
            continue
        if where[2] != _OUTGOING and MARK in frame:
            print(frame[:6].hex(":"), _tag(extra), len(frame), flush=True)
            heard += 1


def _tag(extra: list[tuple[int, int, bytes]]) -> str:
    """VLAN and priority of a frame."""
    for level, kind, data in extra:
        if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
            status, *_, tci, _ = struct.unpack("IIIHHHH", data)
            if status & _VLAN_VALID:
                return f"vlan {tci & 0xFFF} priority {tci >> 13}"
    return "no vlan"


if __name__ == "__main__":
    if sys.argv[1] == "hear":
        hear(sys.argv[2])
    else:
        send(sys.argv[2], sys.argv[3])
