# SPDX-License-Identifier: Apache-2.0
"""Packets on the wire: an AF_PACKET capture and a parser of the headers that tests need."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tests.kernel.lab import Namespace

ETH_P_ALL = 3
SO_RCVBUFFORCE = 33
SOL_PACKET, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING = 263, 8, 23
AUXDATA_LAYOUT = "=IIIHHHH"  # struct tpacket_auxdata
TP_STATUS_VLAN_VALID = 1 << 4
FIN, SYN, ACK, ECE = 0x01, 0x02, 0x10, 0x40


@dataclass(frozen=True)
class Packet:
    """An IP packet with a TCP or UDP header."""

    version: int
    tos: int
    protocol: int
    source_port: int
    seq: int
    ack: int
    flags: int
    data_bytes: int
    checksums_ok: bool

    @property
    def dscp(self) -> int:
        return self.tos >> 2

    @property
    def ecn(self) -> int:
        return self.tos & 3


class Capture:
    """Frames that arrive at an interface. The kernel keeps them until they are read."""

    def __init__(self, ns: Namespace, ifname: str) -> None:
        with ns:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 128 << 20)
            self._socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            self._socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
            self._socket.bind((ifname, ETH_P_ALL))
        self._socket.setblocking(False)

    def frames(self) -> Iterator[tuple[bytes, int | None]]:
        """Yield each unread frame and its VLAN tag (TCI), which the kernel removes from the frame."""
        while True:
            try:
                frame, notes, _, _ = self._socket.recvmsg(1 << 16, 256)
            except BlockingIOError:
                return
            yield frame, next((tci for note in notes if (tci := _vlan_tci(note[2])) is not None), None)

    def packets(self) -> list[Packet]:
        """Return the unread TCP and UDP packets."""
        return [packet for frame, _ in self.frames() if (packet := parse(frame))]

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def _vlan_tci(auxdata: bytes) -> int | None:
    status, _, _, _, _, tci, _ = struct.unpack_from(AUXDATA_LAYOUT, auxdata)
    return tci if status & TP_STATUS_VLAN_VALID else None


def ones_complement_sum(data: bytes) -> int:
    """Return the sum of the Internet checksum (RFC 1071): 0xFFFF if the data contains its right checksum."""
    padded = data + b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def data_of(packets: list[Packet]) -> list[Packet]:
    return [packet for packet in packets if packet.data_bytes]


def tcp_frame(
    to_mac: bytes,
    source: str,
    destination: str,
    ports: tuple[int, int],
    *,
    seq: int = 7,
    flags: int = ACK,
    data_bytes: int = 100,
    dscp: int = 0,
    vlan: int = 0,
) -> bytes:
    """Return a frame with a TCP segment over IPv4, with its checksums. No tag of a VLAN without `vlan`."""
    ends = socket.inet_aton(source) + socket.inet_aton(destination)
    tcp = struct.pack("!HHIIBBHHH", *ports, seq, 9, 5 << 4, flags, 500, 0, 0) + bytes(data_bytes)
    pseudo = ends + struct.pack("!HH", socket.IPPROTO_TCP, len(tcp))
    tcp = tcp[:16] + struct.pack("!H", 0xFFFF ^ ones_complement_sum(pseudo + tcp)) + tcp[18:]
    before = struct.pack("!BBHHHBB", 0x45, dscp << 2, 20 + len(tcp), 0, 0, 64, socket.IPPROTO_TCP)
    header = before + struct.pack("!H", 0xFFFF ^ ones_complement_sum(before + ends)) + ends
    tag = struct.pack("!HH", 0x8100, vlan) if vlan else b""
    return to_mac + bytes.fromhex("020000000077") + tag + b"\x08\x00" + header + tcp


def parse(frame: bytes) -> Packet | None:
    """Return the packet of a frame, None if it is not TCP or UDP directly over IPv4 or IPv6."""
    kind, ip = struct.unpack_from("!H", frame, 12)[0], frame[14:]
    if kind == 0x0800:
        header, ip = ip[: (ip[0] & 15) * 4], ip[: struct.unpack_from("!H", ip, 2)[0]]
        protocol, tos, ok = ip[9], ip[1], ones_complement_sum(header) == 0xFFFF
        pseudo, body, version = ip[12:20], ip[len(header) :], 4
    elif kind == 0x86DD:
        word, length, protocol = struct.unpack_from("!IHB", ip)
        tos, ok, version = word >> 20 & 0xFF, True, 6
        pseudo, body = ip[8:40], ip[40 : 40 + length]
    else:
        return None
    if protocol not in (socket.IPPROTO_TCP, socket.IPPROTO_UDP):
        return None
    ok = ok and ones_complement_sum(pseudo + struct.pack("!II", len(body), protocol) + body) == 0xFFFF
    if protocol == socket.IPPROTO_UDP:
        return Packet(version, tos, protocol, struct.unpack_from("!H", body)[0], 0, 0, 0, len(body) - 8, ok)
    source_port, _, seq, ack, offset, flags = struct.unpack_from("!HHIIBB", body)
    return Packet(version, tos, protocol, source_port, seq, ack, flags, len(body) - (offset >> 4) * 4, ok)
