# SPDX-License-Identifier: Apache-2.0
"""The queues of a real port: credits that fit the rate of its link, and turns that fit its longest frame.

Open vSwitch gives the root class one MTU as its credit: 1,500 bytes are 1.2 us at 10 Gb/s, and round to 0 at 25 Gb/s.
HTB then stops after each packet, and a timer must start it again. A timer that is late by more than the credit costs
rate. Above FASTEST_BPS, Open vSwitch 3.1 also computes wrong rates: it makes 5.64 Gb/s of 40 Gb/s.

A flow queue may send one frame in its turn. With less than the longest frame, HTB's deficit would fall until it wraps.
"""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Sequence

from sluice.dataplane import flow_queues
from sluice.policy.network.graph import Port
from sluice.runtime.command import run
from sluice.topologies.commands.switches import min_rates_bps

CREDIT_NS = 100_000
"""Time for which a class may send after a late timer."""
SMALLEST_BYTES = 2 * 9_022
"""Two frames of the largest usual length, with a VLAN tag."""
FASTEST_BPS = 8 * (2**32 - 1)
"""Above it, a rate in bytes a second does not fit into the 32 bits of Open vSwitch 3.1."""
_LONGEST_CREDIT_S = 250
"""Of a class at its guaranteed rate. The kernel counts it in 32 bits of 64 ns."""
HEADERS_BYTES = 18
"""Of Ethernet, with one VLAN tag."""
_SIOCGIFMTU = 0x8921
_REQUEST = struct.Struct("=16si20x")


def own_burst_bytes(rate_bps: int) -> int:
    """Return the credit of a port's classes: two long frames, or what the link carries in CREDIT_NS."""
    return max(SMALLEST_BYTES, rate_bps * CREDIT_NS // 8_000_000_000)


def fit(port: Port, shares: Sequence[float] | None) -> None:
    """Fit the classes of a port to its rate and its MTU. Waiting packets stay. Raises CommandFailed, OSError."""
    run(["tc", "-batch", "-"], stdin=classes(port, shares))
    frame_bytes = mtu(port.interface) + HEADERS_BYTES
    if frame_bytes > flow_queues.QUANTUM_BYTES:
        run(["tc", "-batch", "-"], stdin=flow_queues.turns(port.interface, frame_bytes))


def classes(port: Port, shares: Sequence[float] | None) -> str:
    """Return `tc -batch` input that gives the root class of a port, and the queues of a fast port, their rates."""
    rate, burst = f"{port.rate_bps}bit", f"{own_burst_bytes(port.rate_bps)}b"
    change = f"class change dev {port.interface} parent"
    root = f"{change} 1: classid 1:fffe htb rate {rate} ceil {rate} burst {burst} cburst {burst}\n"
    if port.rate_bps <= FASTEST_BPS:
        return root
    return root + "".join(
        f"{change} 1:fffe classid 1:{q + 1} htb prio {q} rate {least}bit ceil {rate}"
        f" burst {min(own_burst_bytes(port.rate_bps), least * _LONGEST_CREDIT_S // 8)}b cburst {burst}\n"
        for q, least in enumerate(min_rates_bps(port.rate_bps, shares))
    )


def mtu(interface: str) -> int:
    """Return the MTU of an interface of this network namespace in bytes. Raises OSError without the interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, _SIOCGIFMTU, _REQUEST.pack(interface.encode(), 0))
    return int(_REQUEST.unpack(answer)[1])
