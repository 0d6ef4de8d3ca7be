# SPDX-License-Identifier: Apache-2.0
"""The queues of a real port: credits that fit the rate of its link, and turns that fit its longest frame.

Open vSwitch gives the root class one MTU as its credit: 1,500 bytes are 1.2 us at 10 Gb/s. HTB then stops after each
packet, and a timer must start it again. A timer that is late by more than the credit costs rate.

A flow queue may send one frame in its turn. With less than the longest frame, HTB's deficit would fall until it wraps.
"""

from __future__ import annotations

import fcntl
import socket
import struct

from dataplane import flow_queues
from policy.graph import Port
from runtime.command import run

CREDIT_NS = 100_000
"""Time for which a class may send after a late timer."""
SMALLEST_BYTES = 2 * 9_022
"""Two frames of the largest usual length, with a VLAN tag."""
HEADERS_BYTES = 18
"""Of Ethernet, with one VLAN tag."""
_SIOCGIFMTU = 0x8921
_REQUEST = struct.Struct("=16si20x")


def own_burst_bytes(rate_bps: int) -> int:
    """Return the credit of a port's classes: two long frames, or what the link carries in CREDIT_NS."""
    return max(SMALLEST_BYTES, rate_bps * CREDIT_NS // 8_000_000_000)


def fit(port: Port) -> None:
    """Fit the classes of a port to its rate and its MTU. Waiting packets stay. Raises CommandFailed, OSError."""
    run(["tc", "-batch", "-"], stdin=root_class(port))
    frame_bytes = mtu(port.interface) + HEADERS_BYTES
    if frame_bytes > flow_queues.QUANTUM_BYTES:
        run(["tc", "-batch", "-"], stdin=flow_queues.turns(port.interface, frame_bytes))


def root_class(port: Port) -> str:
    """Return `tc -batch` input that gives the root class of a port its rate and credit."""
    rate, burst = f"{port.rate_bps}bit", f"{own_burst_bytes(port.rate_bps)}b"
    where = f"dev {port.interface} parent 1: classid 1:fffe"
    return f"class change {where} htb rate {rate} ceil {rate} burst {burst} cburst {burst}\n"


def mtu(interface: str) -> int:
    """Return the MTU of an interface of this network namespace in bytes. Raises OSError without the interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, _SIOCGIFMTU, _REQUEST.pack(interface.encode(), 0))
    return int(_REQUEST.unpack(answer)[1])
