# SPDX-License-Identifier: Apache-2.0
"""bpf/port.bpf.c drops what is least urgent first, and marks by rank. Nothing drains during a test."""

import pytest

from sluice.dataplane.port import PortProgram
from sluice.dataplane.port_settings import PortSettings
from sluice.policy.tags import BACKGROUND
from tests.kernel.port_frames import (
    CE,
    ECT0,
    MACS,
    PORT,
    SLOW_BPS,
    Ip,
    Port,
    ecn_of,
    frame,
    ipv4,
    ipv6,
    received,
)

DATA_BYTES = 900
LENGTH = len(frame(ipv4(0, bytes(DATA_BYTES)), 0))
"""Of an IPv4 frame with its priority tag, as HTB counts it."""
BUFFER_BYTES = 32 * LENGTH


def settings(**more: int | bool | str | None) -> PortSettings:
    given = {"rate_bps": SLOW_BPS, "mark_bytes": None, "buffer_bytes": BUFFER_BYTES, "urgent_first": True}
    return PortSettings(**{**given, **more})  # type: ignore[arg-type]


def sent(port: Port, queue: int, count: int, tos: int = 0, ip: Ip = ipv4) -> int:
    """Send frames to a queue. Return how many were not dropped."""
    program, sender, _ = port
    before = program.counters(PORT)[queue].packets
    for _ in range(count):
        sender.send(frame(ip(tos, bytes(DATA_BYTES)), queue << 13))
    return program.counters(PORT)[queue].packets - before


def test_a_flood_leaves_room_for_every_more_urgent_queue(port: Port) -> None:
    """17 of 32 frames for queue 7. Each queue above has one more than the one below it, and the first all the rest."""
    port[0].set(PORT, settings())
    assert [sent(port, queue, 40) for queue in range(7, -1, -1)] == [17, 1, 1, 1, 1, 1, 1, 9]
    assert sum(c.packets for c in port[0].counters(PORT)) == 32


def test_what_is_more_urgent_takes_no_room_from_those_below(port: Port) -> None:
    port[0].set(PORT, settings())
    assert sent(port, 0, 15) == 15
    assert sent(port, 7, 40) == 17


@pytest.mark.parametrize("ip", [ipv4, ipv6])
def test_background_traffic_has_an_eighth_of_the_buffer(port: Port, ip: Ip) -> None:
    """It shares queue 7 with flows whose tags say less than background."""
    port[0].set(PORT, settings(buffer_bytes=32 * (LENGTH + 20)))
    assert sent(port, 7, 40, BACKGROUND << 2, ip) == 4
    assert sent(port, 7, 40) in (13, 14)


@pytest.mark.parametrize(("at", "value"), [(9, 47), (7, 185)], ids=["protocol 47", "later fragment"])
def test_tagged_packets_without_ports_are_background_in_the_queue_of_untagged_ones(
    port: Port, at: int, value: int
) -> None:
    def without_ports(tos: int, data: bytes) -> bytes:
        packet = bytearray(ipv4(tos, data))
        packet[at] = value
        return bytes(packet)

    port[0].set(PORT, settings(vlan_queue=7))
    assert sent(port, 7, 10, 1 << 2, without_ports) == 4
    assert sent(port, 7, 5, 0, without_ports) == 5, "untagged packets need no ports"
    assert sent(port, 6, 5, 1 << 2, without_ports) == 5, "the switch has believed this tag: it is reserved"


def test_background_traffic_marks_no_other_packet(port: Port) -> None:
    program, sender, capture = port
    program.set(PORT, settings(mark_bytes=2 * LENGTH))
    for tag in (BACKGROUND, BACKGROUND, BACKGROUND, BACKGROUND, 40, 40, 40, 40):
        sender.send(frame(ipv4(tag << 2 | ECT0, bytes(DATA_BYTES)), 7 << 13))
    codes = ecn_of(received(capture, 8))
    assert codes == [ECT0] * 3 + [CE] + [ECT0] * 3 + [CE], "each kind finds more than two frames once"


@pytest.mark.parametrize(
    ("mark_by", "codes"),
    [
        ("port", [ECT0, ECT0, ECT0, CE, CE, CE, CE]),
        ("queue", [ECT0] * 7),
        ("ahead", [ECT0, ECT0, ECT0, CE, CE, ECT0, CE]),
    ],
)
def test_marks_go_by_the_backlog_that_the_settings_name(port: Port, mark_by: str, codes: list[int]) -> None:
    """The threshold is two frames. Queue 1 comes after the two frames of queue 0, queue 7 after all."""
    program, sender, capture = port
    program.set(PORT, settings(mark_bytes=2 * LENGTH, mark_by=mark_by, urgent_first=False))
    for queue in (0, 0, 3, 3, 3, 1, 7):
        sender.send(frame(ipv4(40 << 2 | ECT0, bytes(DATA_BYTES)), queue << 13))
    assert ecn_of(received(capture, 7)) == codes


def test_the_last_queue_has_a_threshold_of_its_own(port: Port) -> None:
    program, sender, capture = port
    program.set(PORT, settings(mark_bytes=LENGTH, mark_by="queue", last_queue=5, last_mark_factor=3))
    for queue in (4, 4, 4, 5, 5, 5, 5, 5):
        sender.send(frame(ipv4(40 << 2 | ECT0, bytes(DATA_BYTES)), queue << 13))
    assert ecn_of(received(capture, 8)) == [ECT0, ECT0, CE, *[ECT0] * 4, CE]


def test_frames_that_are_not_ip_have_a_small_budget_in_the_first_queue(port: Port) -> None:
    """8,000 bytes at once. What is beyond goes to the queue of untagged packets as background traffic."""
    program, sender, _ = port
    program.set(PORT, settings(vlan_queue=7))
    for _ in range(40):
        sender.send(MACS + b"\x88\xb5" + bytes(986))
    first, *_, last = program.counters(PORT)
    assert first.packets == 8
    assert last.packets <= BUFFER_BYTES // 8 // 1000
    assert last.packets + last.dropped == 32
    assert sent(port, 0, 10) == 10


def test_without_it_the_port_drops_what_arrives(port: Port) -> None:
    port[0].set(PORT, settings(urgent_first=False))
    assert sent(port, 7, 40) == 32
    assert sent(port, 0, 1) == 0


def test_the_levels_drain_with_the_port(port: Port) -> None:
    """After a second at a fast rate the port is empty, and the room of each queue is whole again."""
    program: PortProgram = port[0]
    program.set(PORT, settings())
    assert sent(port, 7, 40) == 17
    program.set(PORT, settings(rate_bps=10**12))
    received(port[2], 17)
    assert sent(port, 3, 1) == 1
    program.set(PORT, settings())
    assert sent(port, 7, 40) in (16, 17)
