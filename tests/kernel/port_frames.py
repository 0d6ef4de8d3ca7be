# SPDX-License-Identifier: Apache-2.0
"""Frames that Open vSwitch sends to a port, and what arrives at the next hop."""

import socket
import struct
from collections.abc import Callable

from sluice.dataplane.port import PortProgram
from sluice.dataplane.port_settings import PortSettings
from tests.kernel.capture import Capture, ones_complement_sum
from tests.kernel.lab import collected

PORT = "eth0"
NOT_ECT, ECT1, ECT0, CE = 0, 1, 2, 3
SLOW_BPS = 1_000
"""A rate so low that the queue drains less than a packet in seconds."""
OPEN = PortSettings(rate_bps=10**9, mark_bytes=None, buffer_bytes=10**9)
MACS = bytes.fromhex("0200000000020200000000aa")
Ip = Callable[[int, bytes], bytes]


def ipv4(tos: int, data: bytes) -> bytes:
    header = struct.pack(
        "!BBHHHBBH4s4s", 0x45, tos, 28 + len(data), 7, 0, 64, 17, 0, b"\x0a\0\0\1", b"\x0a\0\0\2"
    )
    checksum = 0xFFFF ^ ones_complement_sum(header)
    return header[:10] + struct.pack("!H", checksum) + header[12:] + udp(header[12:20], data)


def ipv6(tclass: int, data: bytes) -> bytes:
    addresses = socket.inet_pton(socket.AF_INET6, "fd00::1") + socket.inet_pton(socket.AF_INET6, "fd00::2")
    flow_label = 0xABCDE
    head = struct.pack("!IHBB", 6 << 28 | tclass << 20 | flow_label, 8 + len(data), 17, 64)
    return head + addresses + udp(addresses, data)


def udp(addresses: bytes, data: bytes) -> bytes:
    length = 8 + len(data)
    head = struct.pack("!HHHH", 1000, 2000, length, 0)
    total = ones_complement_sum(addresses + struct.pack("!II", length, 17) + head + data)
    return head[:6] + struct.pack("!H", (0xFFFF ^ total) or 0xFFFF) + data


def frame(ip: bytes, tci: int | None = None) -> bytes:
    vlan = b"" if tci is None else struct.pack("!HH", 0x8100, tci)
    return MACS + vlan + (b"\x08\x00" if ip[0] >> 4 == 4 else b"\x86\xdd") + ip


Port = tuple[PortProgram, socket.socket, Capture]
BACKLOG, PHANTOM = 0, 16
"""Places of the levels in struct sl_vq_state (laws/mark.h)."""


def level_bytes(program: PortProgram, place: int = BACKLOG, ifname: str = PORT) -> int:
    """Return the virtual queue of a port, or its phantom queue, after the last arrival."""
    state = program._object.map("states").lookup(program._places[ifname]) or b""
    return int(struct.unpack_from("=Q", state, place)[0]) // (8 * 10**9)


def received(capture: Capture, count: int) -> list[tuple[bytes, int | None]]:
    """Wait for `count` frames of the test."""
    return collected(
        lambda: [(f, tci) for f, tci in capture.frames() if f[:12] == MACS], count, f"{count} frames"
    )


def ecn_of(frames: list[tuple[bytes, int | None]]) -> list[int]:
    return [f[15] & 3 if f[12:14] == b"\x08\x00" else f[15] >> 4 & 3 for f, _ in frames]
