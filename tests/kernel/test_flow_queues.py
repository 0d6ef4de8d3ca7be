# SPDX-License-Identifier: Apache-2.0
"""Flow queues on a port. laws/dqs.h chooses at arrival, the kernel serves in turn, a tracepoint counts departures."""

import os
import random
import re
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from sluice.dataplane import flow_queues
from sluice.dataplane.port import PortProgram
from sluice.dataplane.port_settings import PortSettings
from sluice.policy.errors import SluiceError
from sluice.runtime.command import CommandFailed
from sluice.runtime.wait import wait_until
from tests.kernel.capture import Capture
from tests.kernel.conftest import Pair
from tests.kernel.lab import Namespace, collected, connect
from tests.kernel.port_frames import MACS, PORT, Ip, frame, ipv4, ipv6, received
from tests.kernel.watching import make_queues, packets_by_queue, sent_and_backlog_bytes

RATE_BPS = 8_000_000
DATA_BYTES: dict[Ip, int] = {ipv4: 1468, ipv6: 1448}
"""Payload that makes a full frame with flow and number. HTB's turn is one full frame."""
RELEASE_NS = 20_000_000
PEER = "busy0"
SO_SNDBUFFORCE = 32


@dataclass
class Port:
    """A switch port of 8 Mb/s (a frame takes 1.5 ms), a socket that sends there like OVS, and its peer."""

    program: PortProgram
    sender: socket.socket
    capture: Capture
    pair: Pair

    def flow_queues(self, sub_queues: int | None, release_ns: int = RELEASE_NS) -> None:
        settings = PortSettings(None, 10**8, sub_queues=sub_queues, release_ns=release_ns, rate_bps=RATE_BPS)
        self.program.set(PORT, settings)

    def send(self, flow: int, number: int, queue: int = 2, ip: Ip = ipv4) -> None:
        """Send a packet of a UDP flow. The source port identifies the flow."""
        packet = bytearray(ip(0, struct.pack("!HH", flow, number) + bytes(DATA_BYTES[ip])))
        at = 20 if ip is ipv4 else 40
        packet[at : at + 2] = struct.pack("!H", 1000 + flow)
        if ip is ipv6:  # like a socket's flow label, from which the kernel computes its hash
            packet[1:4] = struct.pack("!I", flow)[1:]
        self.sender.send(frame(bytes(packet), queue << 13))

    def sub_queues(self) -> list[tuple[int, int]]:
        """Return the flow and the waiting packets of each sub-queue of queue 2 (struct sl_dqs_queue)."""
        key = struct.pack("=II", socket.if_nametoindex(PORT), 2)
        state = self.program._object.map("flow_queues").lookup(key) or b""
        rows = (struct.unpack_from("=QQI", state, 32 * place) for place in range(flow_queues.SUB_QUEUES))
        return [(flow, waiting) for flow, _, waiting in rows]

    def departed(self) -> list[tuple[int, int]]:
        """Return flow and number of each packet that has left since the last call, in the order of departure."""
        frames = [f for f, _ in self.capture.frames() if f[:12] == MACS]
        return [struct.unpack_from("!HH", f, 42 if f[12:14] == b"\x08\x00" else 62) for f in frames]

    def receive(self, count: int) -> list[tuple[int, int]]:
        """Return the next packets to depart, as `departed` does."""
        got = collected(self.departed, count, f"{count} frames")
        assert len(got) == count
        return got

    def order_of_waiting(self, packets: Sequence[tuple[int, int]], least: int, ip: Ip = ipv4) -> list[int]:
        """Send packets, given by flow and queue. Return the flows of those that wait at the end, in order of departure.

        The sender repeats it until so many packets of each flow wait, because it may pause.
        """
        while True:
            for number, (flow, queue) in enumerate(packets):
                self.send(flow, number, queue, ip)
            waiting = len(packets) - len(self.departed())
            order = [flow for flow, _ in self.receive(waiting)]
            if all(order.count(flow) >= least for flow, _ in packets):
                return order


@pytest.fixture
def port(pair: Pair, port_program: PortProgram) -> Iterator[Port]:
    make_queues(pair.a, PORT, RATE_BPS)
    pair.a.sysctl(f"net.ipv6.conf.{PORT}.disable_ipv6", 1)
    with pair.a:
        sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        sender.bind((PORT, 0))
    with sender, Capture(pair.b, "eth0") as capture, pair.a:
        port_program.make_flow_queues(PORT)
        port_program.attach(PORT, PortSettings(None, 10**8, rate_bps=RATE_BPS))
        yield Port(port_program, sender, capture, pair)
        port_program.detach(PORT)


@pytest.mark.parametrize(("ip", "backlogs"), [(ipv4, (120, 40)), (ipv6, (40, 40, 40))])
def test_flows_take_turns_with_any_backlogs(port: Port, ip: Ip, backlogs: tuple[int, ...]) -> None:
    port.flow_queues(8)
    packets = [(flow, 2) for flow, count in enumerate(backlogs) for _ in range(count)]
    order = port.order_of_waiting(packets, 10, ip)
    turn = order[: len(backlogs)]
    assert sorted(turn) == list(range(len(backlogs)))
    assert order[: 10 * len(turn)] == 10 * turn


def test_without_flow_queues_a_priority_is_first_in_first_out(port: Port) -> None:
    port.flow_queues(None)
    sent = [(1, n) for n in range(60)] + [(2, n) for n in range(20)]
    for packet in sent:
        port.send(*packet)
    assert port.receive(80) == sent


def test_short_packets__none_is_lost_after_the_law(port: Port) -> None:
    """More of them wait than an interface's txqueuelen, which the interface keeps."""
    packets = 3000
    port.sender.setsockopt(
        socket.SOL_SOCKET, SO_SNDBUFFORCE, 64 << 20
    )  # otherwise the sender waits for the port
    short = frame(ipv4(0, bytes(300)), 2 << 13)
    for _ in range(packets):
        port.sender.send(short)
    assert len(received(port.capture, packets)) == packets
    assert sum(queue.dropped for queue in port.program.counters(PORT)) == 0
    assert "qlen 1000" in port.pair.a.run("ip", "link", "show", "dev", PORT)


def test_a_released_sub_queue_is_taken_again_and_one_that_is_not_is_kept(port: Port) -> None:
    port.flow_queues(1, 3600 * 10**9)
    port.send(1, 0)
    port.receive(1)
    mine = port.sub_queues()[0][0]
    port.send(2, 0)
    port.receive(1)
    assert port.sub_queues()[0][0] == mine, "the sub-queue is empty, but not for long enough"
    port.flow_queues(1, RELEASE_NS)
    time.sleep(2 * RELEASE_NS / 1e9)
    port.send(2, 1)
    port.receive(1)
    assert port.sub_queues()[0][0] != mine


def test_more_flows_than_sub_queues__each_in_order_and_nothing_is_lost(port: Port) -> None:
    """Twelve flows come and go in three sub-queues. With a release time of 0, owners change all the time."""
    port.flow_queues(3, release_ns=0)
    rng = random.Random(7)
    numbers = dict.fromkeys(range(12), 0)
    got: list[tuple[int, int]] = []
    for _ in range(15):
        for _ in range(40):
            flow = rng.choice(list(numbers))
            port.send(flow, numbers[flow])
            numbers[flow] += 1
        if rng.random() < 0.5:
            got += port.receive(sum(numbers.values()) - len(got))
    got += port.receive(sum(numbers.values()) - len(got))
    for flow, count in numbers.items():
        assert [number for f, number in got if f == flow] == list(range(count))


def test_priorities_stay_strict_above_flow_queues(port: Port) -> None:
    port.flow_queues(8)
    order = port.order_of_waiting([*[(1, 5), (2, 5)] * 60, *[(3, 1)] * 10], 2)
    assert order == sorted(order, key=lambda flow: flow != 3)
    by_queue = packets_by_queue(port.pair.a, PORT)
    assert by_queue[5] == 12 * by_queue[1] > 0


def test_the_law_learns_of_departures(port: Port) -> None:
    port.flow_queues(8)
    for number in range(20):
        port.send(1, number)
        port.send(2, number)
    port.receive(40)
    port.send(3, 0)
    waiting = sorted(waiting for _, waiting in port.sub_queues())
    assert waiting == [0] * 7 + [1], "no earlier packet waits"


def test_packets_of_a_deleted_qdisc_do_not_count_for_ever(port: Port) -> None:
    """Open vSwitch may make its queues again. The kernel then reports no departures."""
    port.flow_queues(2)
    for number in range(50):
        port.send(1, number)
        port.send(2, number)
    port.pair.a.run("tc", "qdisc", "del", "dev", PORT, "root")
    make_queues(port.pair.a, PORT, RATE_BPS)
    assert port.program.without_flow_queues([PORT]) == {PORT}
    port.program.make_flow_queues(PORT)
    assert port.program.without_flow_queues([PORT]) == frozenset()
    time.sleep(0.05)
    list(port.capture.frames())
    port.send(3, 0)
    assert sum(waiting for _, waiting in port.sub_queues()) == 1
    assert port.receive(1) == [(3, 0)]


def test_a_change_while_packets_wait_loses_none(port: Port) -> None:
    for sub_queues in (None, 8, 2, None, 8):
        port.flow_queues(sub_queues)
        for number in range(30):
            port.send(1, number)
            port.send(2, number)
    got = port.receive(300)
    assert len([n for f, n in got if f == 1]) == 150


def test_a_packet_dropped_at_the_buffer_is_in_no_sub_queue(port: Port) -> None:
    port.program.set(PORT, PortSettings(None, 5_000, sub_queues=8, release_ns=RELEASE_NS, rate_bps=RATE_BPS))
    for number in range(40):
        port.send(1, number)
    dropped = port.program.counters(PORT)[2].dropped
    assert dropped > 0
    port.receive(40 - dropped)
    port.send(2, 0)
    assert sum(waiting for _, waiting in port.sub_queues()) == 1


def dropped(ns: Namespace, handle: str) -> int:
    text = ns.run("tc", "-s", "qdisc", "show", "dev", PORT)
    found = re.search(rf"qdisc pfifo {handle} .*?dropped (\d+)", text, re.S)
    assert found is not None
    return int(found[1])


def test_a_packet_that_a_full_queue_drops_does_not_wait(port: Port) -> None:
    port.flow_queues(8)
    room = 5
    port.pair.a.run(*f"tc qdisc add dev {PORT} parent 12:1 handle 99: pfifo limit {room}".split())
    while dropped(port.pair.a, "99:") < 4 * room:
        for number in range(8 * room):
            with suppress(OSError):  # a drop is an error for a local sender
                port.send(1, number)
    assert 0 < port.sub_queues()[0][1] <= room + 1


@pytest.fixture(params=["a", "b"])
def busy_peer(pair: Pair, request: pytest.FixtureRequest) -> Iterator[None]:
    """A port whose peer takes packets only when this thread rests. Then a burst fills it, and the port is busy.

    In another namespace, the driver clears the mark of a packet before it returns it.
    """
    home: Namespace = getattr(pair, request.param)
    pair.a.run("ip", "link", "delete", PORT)
    connect(pair.a, PORT, home, PEER)
    home.run("ethtool", "-K", PEER, "gro", "on")
    others = takers()
    threaded = f"mount -t sysfs sysfs /sys && echo 1 > /sys/class/net/{PEER}/threaded"
    home.run("unshare", "--mount", "sh", "-c", threaded)
    (taker,) = takers() - others
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(taker, {min(cpus)})
    os.sched_setscheduler(taker, os.SCHED_IDLE, os.sched_param(0))
    os.sched_setaffinity(0, {min(cpus)})
    yield
    os.sched_setaffinity(0, cpus)


def takers() -> set[int]:
    """Return the kernel's threads that take packets for such a peer. They outlive their namespace for a moment."""
    pids = set()
    for path in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):  # it has ended
            if path.read_text().startswith(f"napi/{PEER}"):
                pids.add(int(path.parent.name))
    return pids


def test_a_packet_that_a_busy_driver_returns_leaves_once(pair: Pair, busy_peer: None) -> None:
    make_queues(pair.a, PORT, 10**10)
    for name in ("all", "default", PORT):
        pair.a.sysctl(f"net.ipv6.conf.{name}.disable_ipv6", 1)
    with pair.a, socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender, PortProgram() as program:
        sender.bind((PORT, 0))
        program.make_flow_queues(PORT)
        program.attach(PORT, PortSettings(None, 10**8, sub_queues=8, release_ns=RELEASE_NS, rate_bps=10**10))
        sent, data = 0, frame(ipv4(0, bytes(100)), 2 << 13)
        while requeues(pair.a) < 5:
            for _ in range(1000):
                sender.send(data)
            sent += 1000
        wait_until(lambda: sent_and_backlog_bytes(pair.a, PORT)[1] == 0, "an empty port")
        assert departed(program) == sent


def requeues(ns: Namespace) -> int:
    found = re.search(r"requeues (\d+)", ns.run("tc", "-s", "qdisc", "show", "dev", PORT))
    assert found is not None
    return int(found[1])


def departed(program: PortProgram) -> int:
    """Return the packets that have left the port's flow queues (struct departures)."""
    value = program._object.map("departures").lookup(socket.if_nametoindex(PORT)) or b""
    return sum(struct.unpack_from(f"={flow_queues.QUEUES * flow_queues.SUB_QUEUES}I", value, 512))


def test_make__again_changes_nothing_and_a_port_without_queues_is_refused(port: Port, pair: Pair) -> None:
    before = pair.a.run("tc", "class", "show", "dev", PORT)
    port.program.make_flow_queues(PORT)
    assert pair.a.run("tc", "class", "show", "dev", PORT) == before
    assert len([line for line in before.splitlines() if " 1:" not in line]) == 8 * flow_queues.SUB_QUEUES
    with pair.b, pytest.raises(CommandFailed):
        port.program.make_flow_queues("eth0")
    with pytest.raises(SluiceError):
        port.program.make_flow_queues("nothing")
