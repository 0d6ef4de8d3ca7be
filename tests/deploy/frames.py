# SPDX-License-Identifier: Apache-2.0
"""Frames of other people's traffic, as they leave one machine and arrive at another. It uses no line of Sluice.

frames.py hear INTERFACE [NUMBER]
    print "ready", then a line for each whole frame, until NUMBER have arrived or one with the text "end"
frames.py send INTERFACE FRAME…
    send frames of 1,514 bytes, each as DESTINATION,TCI,DSCP,TEXT; TCI is priority × 8,192 + VLAN, or - for no header
"""

import socket
import struct
import sys

MARK = b"frames: "
PACKET_BYTES = 1500
_ALL_PROTOCOLS, _IPV4, _VLAN = 3, 0x0800, 0x8100
_SOL_PACKET, _PACKET_AUXDATA = 263, 8
_OUTGOING, _VLAN_VALID = 4, 0x10


def packet(dscp: int, text: str) -> bytes:
    """An IPv4 packet (UDP) with a text, which fills an Ethernet frame."""
    body = (MARK + text.encode()).ljust(PACKET_BYTES - 28, b" ")
    addresses = socket.inet_aton("10.9.0.11") + socket.inet_aton("10.9.0.12")
    head = struct.pack("!BBHHHBBH", 0x45, dscp << 2, PACKET_BYTES, 0, 0x4000, 64, 17, 0) + addresses
    total = sum(struct.unpack("!10H", head))
    checksum = struct.pack("!H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF)
    udp = struct.pack("!HHHH", 7777, 7, PACKET_BYTES - 20, 0)
    return head[:10] + checksum + head[12:] + udp + body


def send(interface: str, frames: list[str]) -> None:
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    out.bind((interface, 0))
    source = out.getsockname()[4]
    for frame in frames:
        to, tci, dscp, text = frame.split(",")
        tag = b"" if tci == "-" else struct.pack("!HH", _VLAN, int(tci))
        head = bytes.fromhex(to.replace(":", "")) + source + tag
        out.send(head + struct.pack("!H", _IPV4) + packet(int(dscp), text))


def hear(interface: str, number: int) -> None:
    frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
    frames.bind((interface, 0))
    frames.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)  # the kernel keeps the VLAN tag beside the frame
    print("ready", flush=True)
    while number:
        frame, extra, _, where = frames.recvmsg(65536, 256)
        if where[2] == _OUTGOING or MARK not in frame or len(frame) != 14 + PACKET_BYTES:
            continue
        text = frame.partition(MARK)[2].decode().rstrip()
        if text == "end":
            return
        print(text, _tag(extra), flush=True)
        number -= 1


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
        hear(sys.argv[2], int(sys.argv[3]) if sys.argv[3:] else -1)
    else:
        send(sys.argv[2], sys.argv[3:])
