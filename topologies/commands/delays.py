# SPDX-License-Identifier: Apache-2.0
"""Commands that set up a link with a delay: two veth pairs, and netem between their inner ends.

    switch port ═ x~a ──▶ netem of x~b ──▶ x~b ═ other end        and the same in the other direction

netem cannot be at the port itself. There it would be below Open vSwitch's queues and delay packets before the queues
serve them. Behind the port, the userspace datapath would take packets before any ingress qdisc sees them.
"""

from __future__ import annotations

from sluice.policy.network.graph import Port
from sluice.topologies.commands.command import QUEUE_PACKETS, Command

_SMALLEST_FRAME_BITS = 64 * 8
_NS_PER_S = 10**9


def inner_ends(port: Port) -> tuple[str, str]:
    """Return the names of a link's inner ends: the one at the port, and the one at its peer."""
    return f"{port.interface}~a", f"{port.interface}~b"


def pair(inner: str, outer: str, pid: int) -> Command:
    """Make a veth pair. Its outer end goes into the network namespace of a process."""
    argv = ["ip", "link", "add", "name", inner, "type", "veth", "peer", "name", outer, "netns", str(pid)]
    return Command(argv)


def delayed(port: Port) -> list[Command]:
    """Forward frames between the inner ends of a link, each of them `port.delay_ns` later, in their order."""
    a, b = inner_ends(port)
    links = "".join(f"link set {end} txqueuelen {QUEUE_PACKETS} up\n" for end in (a, b))
    forwarding = "".join(_forward(here, there, port) for here, there in ((a, b), (b, a)))
    return [Command(["ip", "-batch", "-"], links), Command(["tc", "-batch", "-"], forwarding)]


def _forward(here: str, there: str, port: Port) -> str:
    delay_us = round(port.delay_ns / 1000)  # tc knows no nanoseconds here
    return (
        f"qdisc add dev {there} root netem delay {delay_us}us limit {in_flight_packets(port)}\n"
        f"qdisc add dev {here} clsact\n"
        f"filter add dev {here} ingress protocol all prio 1 matchall action mirred egress redirect dev {there}\n"
    )


def in_flight_packets(port: Port) -> int:
    """Return a number of packets that the link never holds at once, so that netem drops none."""
    smallest_frames = port.rate_bps * port.delay_ns // (_SMALLEST_FRAME_BITS * _NS_PER_S)
    return QUEUE_PACKETS + 2 * smallest_frames
