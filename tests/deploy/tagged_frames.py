# SPDX-License-Identifier: Apache-2.0
"""Frames of VLANs, as they leave one machine and arrive at another. It uses no line of Sluice.

tagged_frames.py hear INTERFACE    print "ready", then a line for each frame, until one with the text "end" has arrived
tagged_frames.py send INTERFACE FRAME…    send frames, each as DESTINATION,VLAN,DSCP,TEXT; VLAN - is no header
"""

import socket
import struct
import sys

MARK = b"VLANs: "
_ALL_PROTOCOLS, _IPV4, _VLAN = 3, 0x0800, 0x8100
_SOL_PACKET, _PACKET_AUXDATA = 263, 8
_OUTGOING, _VLAN_VALID = 4, 0x10


def packet(dscp: int, text: str) -> bytes:
    """An IPv4 packet (UDP) with a text."""
    body = MARK + text.encode()
    size = 28 + len(body)
    addresses = socket.inet_aton("10.9.0.11") + socket.inet_aton("10.9.0.12")
    head = struct.pack("!BBHHHBBH", 0x45, dscp << 2, size, 0, 0x4000, 64, 17, 0) + addresses
    total = sum(struct.unpack("!10H", head))
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    return (
        head[:10]
        + struct.pack("!H", checksum)
        + head[12:]
        + struct.pack("!HHHH", 7777, 7, size - 20, 0)
        + body
    )


def send(interface: str, frames: list[str]) -> None:
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    out.bind((interface, 0))
    source = out.getsockname()[4]
    for frame in frames:
        to, vlan, dscp, text = frame.split(",")
        tag = b"" if vlan == "-" else struct.pack("!HH", _VLAN, int(vlan))
        head = bytes.fromhex(to.replace(":", "")) + source + tag
        out.send(head + struct.pack("!H", _IPV4) + packet(int(dscp), text))


def hear(interface: str) -> None:
    frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
    frames.bind((interface, 0))
    frames.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)  # the kernel keeps the VLAN tag beside the frame
    print("ready", flush=True)
    while True:
        frame, extra, _, where = frames.recvmsg(65536, 256)
        if where[2] == _OUTGOING or MARK not in frame:
            continue
        text = frame.partition(MARK)[2].decode()
        if text == "end":
            return
        print(text, _tag(extra), flush=True)


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
        send(sys.argv[2], sys.argv[3:])
