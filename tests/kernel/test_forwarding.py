# SPDX-License-Identifier: Apache-2.0
"""The port program measures how long a switch holds packets, in units of a full frame's time at the egress port."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from sluice.dataplane.port import PortProgram
from sluice.dataplane.port_settings import PortSettings
from sluice.policy.figures.validity import DELAYS_IN_UNIT, share_late
from sluice.runtime.command import run
from tests.kernel.capture import Capture
from tests.kernel.lab import Namespace, connect
from tests.kernel.port_frames import Ip, frame, ipv4, ipv6, received
from tests.kernel.watching import make_queues

RATE_BPS = 100_000
FRAME_S = 1514 * 8 / RATE_BPS
PACKETS = 320
"""About one in sixteen is in the sample."""

Switch = tuple[PortProgram, socket.socket, Capture]


@pytest.fixture
def switch(namespaces: list[Namespace]) -> Iterator[Switch]:
    """A switch with the ports west and east, a sender west of it, and what arrives east of it."""
    source, middle, sink = Namespace(), Namespace(), Namespace()
    namespaces += [source, middle, sink]
    connect(source, "eth0", middle, "west")
    connect(sink, "eth0", middle, "east")
    make_queues(middle, "east", 10**9)
    with ExitStack() as open_:
        with source:
            sender = open_.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
            sender.bind(("eth0", 0))
        program = open_.enter_context(PortProgram())
        capture = open_.enter_context(Capture(sink, "eth0"))
        open_.enter_context(middle)
        program.attach("east", PortSettings(RATE_BPS, mark_bytes=None, buffer_bytes=10**9))
        yield program, sender, capture


@pytest.mark.parametrize("ip", [ipv4, ipv6])
def test_packets_that_the_switch_holds_are_late(switch: Switch, ip: Ip) -> None:
    program, sender, capture = switch
    program.follow_arrivals("west")
    frames = [frame(ip(0, number.to_bytes(8, "big"))) for number in range(PACKETS)]
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003)) as west,
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as east,
    ):
        west.bind(("west", 0x0003))
        east.bind(("east", 0))
        held = []
        for data in frames:
            sender.send(data)
            held.append(next(got for got in iter(lambda: west.recv(2000), b"") if got == data))
        time.sleep(2 * FRAME_S)
        for data in held:
            east.send(data)
    received(capture, PACKETS)
    counts = program.forwarding()
    assert PACKETS / 64 < sum(counts) < PACKETS / 4, "a sample"
    assert share_late(counts) == 1.0
    assert not any(counts[: (2 * DELAYS_IN_UNIT).bit_length()]), "at least two units"


def test_packets_that_pass_at_once_are_early(switch: Switch) -> None:
    program, sender, capture = switch
    program.follow_arrivals("west")
    match, action = "prio 50000 protocol all u32 match u32 0 0", "action mirred egress redirect dev east"
    run(f"tc filter add dev west ingress {match} {action}".split())
    for number in range(PACKETS):
        sender.send(frame(ipv4(0, number.to_bytes(8, "big"))))
    received(capture, PACKETS)
    counts = program.forwarding()
    assert sum(counts) > PACKETS / 64
    assert counts[0] > sum(counts) / 2, "an eighth of the unit is 15 ms"


def test_packets_that_arrived_elsewhere_do_not_count(switch: Switch) -> None:
    program, _, capture = switch
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as east:
        east.bind(("east", 0))
        for number in range(PACKETS):
            east.send(frame(ipv4(0, number.to_bytes(8, "big"))))
    received(capture, PACKETS)
    assert sum(program.forwarding()) == 0
