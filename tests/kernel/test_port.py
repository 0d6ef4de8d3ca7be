# SPDX-License-Identifier: Apache-2.0
"""bpf/port.bpf.c on frames that Open vSwitch sends and the next hop receives.

At the end: how long a switch holds packets, in units of a full frame's time at the egress port.
"""

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from sluice.dataplane.libbpf import ffi, lib
from sluice.dataplane.port import PortProgram
from sluice.dataplane.port_settings import PortSettings
from sluice.policy.figures.validity import DELAYS_IN_UNIT, share_late
from sluice.policy.wire.agents import TagCounters
from sluice.runtime.command import run
from tests.kernel.capture import Capture, parse
from tests.kernel.conftest import V4, Pair
from tests.kernel.lab import Namespace, connect, dial, listen, send_and_receive
from tests.kernel.port_frames import (
    CE,
    ECT0,
    ECT1,
    MACS,
    NOT_ECT,
    OPEN,
    PHANTOM,
    PORT,
    SLOW_BPS,
    Ip,
    Port,
    ecn_of,
    frame,
    ipv4,
    ipv6,
    level_bytes,
    received,
)
from tests.kernel.watching import make_queues, packets_by_queue, sent_and_backlog_bytes, sockets_closed

SK_BUFF_BYTES, SK_BUFF_MARK, SK_BUFF_IFINDEX = 192, 8, 40
"""struct __sk_buff of bpf.h."""
SOL_PACKET, PACKET_VNET_HDR = 263, 15


@pytest.mark.parametrize("ip", [ipv4, ipv6])
def test_the_priority_tag_chooses_the_queue_and_goes(port: Port, pair: Pair, ip: Ip) -> None:
    program, sender, capture = port
    sent = [frame(ip(9 << 2, bytes([q])), q << 13) for q in range(8) for _ in range(q + 1)]
    for data in sent:
        sender.send(data)
    got = received(capture, len(sent))
    assert sorted(f for f, _ in got) == sorted(f[:12] + f[16:] for f in sent)
    assert {tci for _, tci in got} == {None}
    assert [c.packets for c in program.counters(PORT)] == [q + 1 for q in range(8)]
    assert packets_by_queue(pair.a, PORT) == [q + 1 for q in range(8)]
    assert program.counters(PORT)[3].bytes == 4 * (len(sent[6]) - 4)


def test_joined_packets__count_as_what_the_wire_carries(port: Port, pair: Pair) -> None:
    """Segments of one connection that TCP, or GRO at a switch, has joined to a long packet."""
    program, _, capture = port
    pair.a.run("ethtool", "-K", PORT, "tx", "on", "tso", "on", "gso", "on")
    pair.a.run("ip", "link", "set", "dev", PORT, "gso_max_segs", "64")
    with listen(pair.b, V4["b"], "reno") as listener:
        client, server = dial(pair.a, listener, "reno")
        segment_bytes = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        send_and_receive(client, server, 200_000)
        client.close()
        assert server.recv(1) == b""
        server.close()
        sockets_closed(pair.a)
    sent = [parse(data) for data, _ in capture.frames()]
    on_the_wire = sum(max(1, -(-packet.data_bytes // segment_bytes)) if packet else 1 for packet in sent)
    assert len(sent) < on_the_wire
    assert sum(counted.packets for counted in program.counters(PORT)) == on_the_wire


@pytest.mark.parametrize("queue", [0, 6])
def test_a_real_vlan_keeps_its_tag_and_goes_to_the_queue_of_vlans(port: Port, queue: int) -> None:
    program, sender, capture = port
    program.set(PORT, replace(OPEN, vlan_queue=queue))
    tci = 7 << 13 | 5
    sender.send(frame(ipv4(0, b"vlan"), tci))
    assert received(capture, 1) == [(frame(ipv4(0, b"vlan")), tci)]
    assert program.counters(PORT)[queue].packets >= 1
    assert program.counters(PORT)[7].packets == 0


@pytest.mark.parametrize("ip", [ipv4, ipv6])
def test_the_header_of_a_vlan_names_the_queue_and_leaves_with_priority_0(
    port: Port, pair: Pair, ip: Ip
) -> None:
    """Where rules forward by VLAN. A header of VLAN 0 goes, as elsewhere."""
    program, sender, capture = port
    program.set(PORT, replace(OPEN, vlan_queue=7, in_vlan_header=True))
    for queue in range(1, 7):
        for vlan in (5, 0):
            sender.send(frame(ip(0, bytes([queue])), queue << 13 | vlan))
    expected = [(frame(ip(0, bytes([queue]))), tci) for queue in range(1, 7) for tci in (5, None)]
    assert sorted(received(capture, 12), key=str) == sorted(expected, key=str)
    assert [c.packets for c in program.counters(PORT)][1:] == [2] * 6 + [0]
    assert packets_by_queue(pair.a, PORT)[1:] == [2] * 6 + [0]


def test_frames_without_a_tag_go_to_queue_0(port: Port) -> None:
    program, sender, capture = port
    before = program.counters(PORT)[0].packets
    sender.send(frame(ipv4(0, b"plain")))
    assert received(capture, 1) == [(frame(ipv4(0, b"plain")), None)]
    assert program.counters(PORT)[0].packets > before


@pytest.mark.parametrize(("ip", "ect"), [(ipv4, ECT0), (ipv6, ECT1)])
def test_marks_packets_that_find_more_than_k_and_changes_nothing_else(port: Port, ip: Ip, ect: int) -> None:
    program, sender, capture = port
    sent = [frame(ip(21 << 2 | ect, bytes(900)), 2 << 13) for _ in range(10)]
    length = len(sent[0]) - 4
    program.set(
        PORT, PortSettings(mark_bytes=3 * length + length // 2, buffer_bytes=10**9, rate_bps=SLOW_BPS)
    )
    for data in sent:
        sender.send(data)
    got = received(capture, len(sent))
    assert ecn_of(got) == [ect] * 4 + [CE] * 6, "four find 0 … 3 packets, the others more than 3.5"
    expected = frame(ip(21 << 2 | CE, bytes(900)))
    assert {f for f, _ in got[4:]} == {expected}, "CE, the checksum that follows from it, and nothing else"
    assert program.counters(PORT)[2].marked == 6
    assert program.counters(PORT)[2].not_markable == 0


def set_backlog(program: PortProgram, size_bytes: int) -> None:
    """Put this backlog into the port's virtual queue."""
    state = struct.pack("=QQQQ64x24xIxxxx", size_bytes * 8 * 10**9, time.monotonic_ns(), 0, 0, 0)
    program._object.map("states").update(program._places[PORT], state)
    assert level_bytes(program) == size_bytes


@pytest.mark.parametrize("chance", [1, 0.4])
def test_ramp__in_its_middle_half_of_its_chance_marks(port: Port, chance: float) -> None:
    """The ramp is so wide that the test's waiting packets move the backlog by only 0.13 % of its width."""
    program, sender, capture = port
    count, standing = 1000, 200_000_000
    ramp = PortSettings(150_000_000, 10**9, 250_000_000, chance, rate_bps=SLOW_BPS)
    program.set(PORT, ramp)
    set_backlog(program, standing)
    codes = []
    for _ in range(count // 100):
        for _ in range(100):
            sender.send(frame(ipv4(ECT0, bytes(20)), 2 << 13))
        codes += ecn_of(received(capture, 100))
    assert set(codes) <= {ECT0, CE}
    assert program.counters(PORT)[2].marked == codes.count(CE)
    share = chance / 2
    deviation = (share * (1 - share) / count) ** 0.5
    assert abs(codes.count(CE) / count - share) < 4.5 * deviation + 0.0013


def test_phantom_queue__marks_while_the_port_is_empty_and_drops_nothing(port: Port, pair: Pair) -> None:
    """A frame takes 7.6 ms at 1 Mb/s. One every 10 ms leaves the port empty, but the phantom queue at 1 % grows."""
    program, sender, capture = port
    data = frame(ipv4(ECT0, bytes(900)), 2 << 13)
    few = 5 * len(data)
    program.set(PORT, PortSettings(None, 2 * few, phantom_mark_bytes=few, phantom_percent=1, rate_bps=10**6))
    set_backlog(program, 0)
    for _ in range(25):
        sender.send(data)
        assert level_bytes(program) == len(data), "the frame found an empty port"
        time.sleep(0.01)
    codes = ecn_of(received(capture, 25))
    assert codes[:6] == [ECT0] * 6, "the first six find at most five packets' worth"
    assert codes.count(CE) > 12
    assert program.counters(PORT)[2].marked == codes.count(CE)
    assert program.counters(PORT)[2].dropped == 0
    assert few < level_bytes(program, PHANTOM) <= 2 * few
    program.set(PORT, PortSettings(None, 2 * few, rate_bps=10**6))
    sender.send(data)
    assert ecn_of(received(capture, 1)) == [ECT0]
    assert level_bytes(program, PHANTOM) == 0


def test_settings__another_way_of_marking_while_packets_flow(port: Port) -> None:
    """The policy changes from K to a ramp, to a phantom queue, to none, and to a port without a rate."""
    program, sender, capture = port
    set_backlog(program, 50_000)
    for settings, want in (
        (PortSettings(40_000, 10**6, rate_bps=SLOW_BPS), CE),
        (PortSettings(80_000, 10**6, mark_max_bytes=120_000, rate_bps=SLOW_BPS), ECT0),
        (PortSettings(20_000, 10**6, mark_max_bytes=40_000, rate_bps=SLOW_BPS), CE),
        (PortSettings(None, 10**6, phantom_mark_bytes=50_000, rate_bps=SLOW_BPS), ECT0),
        (PortSettings(None, 10**6, rate_bps=SLOW_BPS), ECT0),
        (PortSettings(1, 1, rate_bps=0), ECT0),
    ):
        program.set(PORT, settings)
        for _ in range(3):
            sender.send(frame(ipv4(ECT0, bytes(900))))
        assert ecn_of(received(capture, 3)) == [want] * 3


LEFT = replace(OPEN, by_dscp=True, queue_of=tuple(dscp % 8 for dscp in range(64)))
"""Of a port of a switch that forwards by itself."""


@pytest.mark.parametrize("ip", [ipv4, ipv6])
def test_marks_packets_of_a_vlan(port: Port, ip: Ip) -> None:
    program, sender, capture = port
    program.set(PORT, replace(LEFT, mark_bytes=1, buffer_bytes=10**6, rate_bps=SLOW_BPS))
    sent = [frame(ip(ECT0, bytes(900)), 10)] * 3
    for data in sent:
        sender.send(data)
    got = received(capture, 3)
    assert [tci for _, tci in got] == [10] * 3
    marked = frame(ip(CE, bytes(900)), 10)
    untagged = marked[:12] + marked[16:]
    assert [data for data, _ in got][1:] == [untagged] * 2
    assert program.counters(PORT)[0].marked == 2


def test_packets_without_ecn_are_never_marked(port: Port) -> None:
    program, sender, capture = port
    program.set(PORT, PortSettings(mark_bytes=1, buffer_bytes=10**9, rate_bps=SLOW_BPS))
    arp = MACS + b"\x08\x06" + bytes(46)
    sent = [frame(ipv4(NOT_ECT, bytes(900))), frame(ipv4(NOT_ECT, b"x")), frame(ipv4(CE, b"y")), arp]
    for data in sent:
        sender.send(data)
    assert [f for f, _ in received(capture, len(sent))] == sent
    assert program.counters(PORT)[0].marked == 0
    assert program.counters(PORT)[0].not_markable >= 3


def test_drops_packets_beyond_the_buffer_in_every_queue(
    port: Port,
) -> None:
    program, sender, capture = port
    sent = [frame(ipv4(0, bytes([i]) * 900), (i % 8) << 13) for i in range(12)]
    length = len(sent[0]) - 4
    program.set(PORT, PortSettings(mark_bytes=None, buffer_bytes=5 * length + length // 2, rate_bps=SLOW_BPS))
    for data in sent:
        sender.send(data)
    assert sorted(f for f, _ in received(capture, 5)) == sorted(f[:12] + f[16:] for f in sent[:5])
    assert sum(c.dropped for c in program.counters(PORT)) == 7
    assert sum(c.packets for c in program.counters(PORT)) == 5


def test_the_virtual_queue_counts_a_packet_like_htb(port: Port, pair: Pair) -> None:
    """HTB counts the length with the priority tag, because the program removes the tag later."""
    program, sender, capture = port
    program.set(PORT, PortSettings(mark_bytes=None, buffer_bytes=10**9, rate_bps=SLOW_BPS))
    sent = [frame(ipv4(0, bytes(900)), 6 << 13) for _ in range(5)]
    before = sent_and_backlog_bytes(pair.a, PORT)[0]
    for data in sent:
        sender.send(data)
    received(capture, len(sent))
    by_htb = sent_and_backlog_bytes(pair.a, PORT)[0] - before
    assert by_htb == sum(map(len, sent))
    assert 0 <= by_htb - level_bytes(program) < 100, "the difference has drained in the meantime"
    assert program.counters(PORT)[6].bytes == by_htb - 4 * len(sent)


@pytest.mark.timing
@pytest.mark.parametrize("link_bps", [8_000_000])
def test_late__is_the_time_of_the_packets_that_the_port_owes(port: Port, link_bps: int) -> None:
    """Another packet arrives when 20 of 40 packets of 0.98 ms have left. At four times the rate, none would wait."""
    program, sender, capture = port
    data = frame(ipv4(0, bytes(950)))
    late_ms, owed, sending_ms = {}, {}, {}
    for rate_bps in (link_bps, 4 * link_bps):
        program.set(PORT, PortSettings(mark_bytes=None, buffer_bytes=10**9, rate_bps=rate_bps))
        before_ns, began = program.late_ns(PORT), time.monotonic()
        for _ in range(40):
            sender.send(data)
        sending_ms[rate_bps] = (time.monotonic() - began) * 1e3
        gone = len(received(capture, 20))
        sender.send(data)
        received(capture, 41 - gone)
        late_ms[rate_bps] = (program.late_ns(PORT) - before_ns) / 1e6
        owed[rate_bps] = 40 - gone
    expected_ms = 0.25 * owed[4 * link_bps]
    assert late_ms[link_bps] < 2, "the machine's own lateness"
    while_sending_ms = 0.75 * sending_ms[4 * link_bps]
    assert 0.6 * expected_ms < late_ms[4 * link_bps] < expected_ms + while_sending_ms + 0.3, owed


@pytest.mark.parametrize(("sub_queues", "left"), [(None, 77), (8, 0x120001)])
def test_a_packet_keeps_the_mark_of_others_unless_its_flow_has_a_queue(
    pair: Pair, sub_queues: int | None, left: int
) -> None:
    settings = PortSettings(None, 10**9, sub_queues=sub_queues, rate_bps=10**9)
    with PortProgram() as program, pair.a:
        program.attach(PORT, settings)
        context = bytearray(SK_BUFF_BYTES)
        struct.pack_into("=I", context, SK_BUFF_MARK, 77)
        struct.pack_into("=I", context, SK_BUFF_IFINDEX, socket.if_nametoindex(PORT))
        options: Any = ffi.new("struct bpf_test_run_opts *")
        data, given = frame(ipv4(0, b"x"), 2 << 13), ffi.from_buffer(context)
        options.sz, options.repeat = ffi.sizeof("struct bpf_test_run_opts"), 1
        options.data_in, options.data_size_in = ffi.from_buffer(data), len(data)
        options.ctx_in = options.ctx_out = given
        options.ctx_size_in = options.ctx_size_out = len(context)
        assert lib().bpf_prog_test_run_opts(program._program.fd, options) == 0
    assert struct.unpack_from("=I", context, SK_BUFF_MARK) == (left,)


@pytest.mark.parametrize(("ip", "tci"), [(ipv4, None), (ipv6, 10)], ids=["plain", "VLAN"])
def test_by_dscp__the_program_chooses_the_queue_and_counts(port: Port, ip: Ip, tci: int | None) -> None:
    program, sender, capture = port
    program.set(PORT, LEFT)
    for dscp in range(64):
        sender.send(frame(ip(dscp << 2, bytes(50)), tci))
    got = received(capture, 64)
    assert {found for _, found in got} == {tci}, "the VLAN stays"
    assert [queue.packets for queue in program.counters(PORT)] == [8] * 8
    size_bytes = len(frame(ip(0, bytes(50)), tci))
    assert program.tags(PORT) == tuple(TagCounters(dscp, 1, size_bytes, 0) for dscp in range(64))


def test_by_dscp__what_is_not_ip_goes_first(port: Port) -> None:
    program, sender, capture = port
    program.set(PORT, replace(LEFT, queue_of=(7,) * 64))
    sender.send(MACS + b"\x08\x06" + bytes(46))
    received(capture, 1)
    assert program.counters(PORT)[0].packets == 1


VXLAN, GENEVE = (4789, b"\x08" + bytes(7)), (6081, b"\x01\0\x65\x58" + bytes(4 + 4))
"""UDP port of a tunnel and its header: the one of Geneve has an option of four bytes."""


@pytest.mark.parametrize("tunnel", [None, VXLAN, GENEVE], ids=["plain", "VXLAN", "Geneve"])
def test_by_dscp__a_fin_counts_as_an_end(port: Port, tunnel: tuple[int, bytes] | None) -> None:
    program, sender, capture = port
    program.set(PORT, LEFT)
    segment = struct.pack("!HHIIBBHHH", 1000, 2000, 1, 1, 5 << 4, 0x11, 100, 0, 0)
    for protocol in (socket.IPPROTO_TCP, socket.IPPROTO_UDP):
        ip = with_protocol(protocol, segment)
        if tunnel:
            to, header = tunnel
            inside = header + frame(ip)
            ip = with_protocol(
                socket.IPPROTO_UDP, struct.pack("!HHHH", 1000, to, 8 + len(inside), 0) + inside
            )
        sender.send(frame(ip))
        received(capture, 1)
    (counted,) = program.tags(PORT)
    assert (counted.dscp, counted.packets, counted.ends) == (5, 2, 1)


def with_protocol(protocol: int, payload: bytes) -> bytes:
    """Return a packet of IPv4 under tag 5."""
    ip = bytearray(ipv4(5 << 2, payload))
    ip[9], ip[20:] = protocol, payload
    return bytes(ip)


def test_headers_outside_the_first_part_of_a_packet_are_read(port: Port, pair: Pair) -> None:
    """Drivers may put the Ethernet header alone there. The other frame ends within its IP header."""
    program, sender, capture = port
    program.set(PORT, LEFT)
    for host in (pair.a, pair.b):
        host.run("ip", "link", "set", "dev", "eth0", "mtu", "9000")
    sender.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    first_part = struct.pack("=BBHHHH", 0, 0, 14, 0, 0, 0)
    segment = struct.pack("!HHIIBBHHH", 1000, 2000, 1, 1, 5 << 4, 0x11, 100, 0, 0) + bytes(5000)
    for ip in (with_protocol(socket.IPPROTO_TCP, segment), ipv4(5 << 2, b"")[:10]):
        sender.send(first_part + frame(ip))
    received(capture, 2)
    (counted,) = program.tags(PORT)
    assert (counted.dscp, counted.packets, counted.ends) == (5, 2, 1)


def test_by_dscp__without_queues_the_program_changes_nothing(port: Port) -> None:
    program, sender, capture = port
    program.set(PORT, replace(LEFT, queue_of=(), mark_bytes=1))
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 6)
    for _ in range(3):
        sender.send(frame(ipv4(9 << 2 | ECT0, bytes(1000))))
    assert ecn_of(received(capture, 3)) == [ECT0] * 3
    assert [one.packets for one in program.tags(PORT)] == [3]
    assert program.counters(PORT)[0].packets == 3


RATE_BPS = 100_000
FRAME_S = 1514 * 8 / RATE_BPS
PACKETS = 320
"""About one in sixteen is in the sample."""

Switch = tuple[PortProgram, socket.socket, Capture, Namespace]


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
        program.attach("east", PortSettings(mark_bytes=None, buffer_bytes=10**9, rate_bps=RATE_BPS))
        yield program, sender, capture, middle


def redirect() -> None:
    """Let the switch pass on what arrives west."""
    match, action = "prio 50000 protocol all u32 match u32 0 0", "action mirred egress redirect dev east"
    run(f"tc filter add dev west ingress {match} {action}".split())


def test_a_priority_tag_in_the_metadata_chooses_the_queue_and_goes(switch: Switch) -> None:
    """A tagged frame that a port receives and passes on has its tag in the metadata."""
    program, sender, capture, middle = switch
    program.set("east", OPEN)
    run(["tc", "qdisc", "add", "dev", "west", "clsact"])
    redirect()
    sender.send(frame(ipv4(0, b"meta"), 5 << 13))
    assert received(capture, 1) == [(frame(ipv4(0, b"meta")), None)]
    assert program.counters("east")[5].packets == 1
    assert packets_by_queue(middle, "east")[5] == 1


@pytest.mark.parametrize("ip", [ipv4, ipv6])
def test_packets_that_the_switch_holds_are_late(switch: Switch, ip: Ip) -> None:
    program, sender, capture, _ = switch
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
    program, sender, capture, _ = switch
    program.follow_arrivals("west")
    redirect()
    for number in range(PACKETS):
        sender.send(frame(ipv4(0, number.to_bytes(8, "big"))))
    received(capture, PACKETS)
    counts = program.forwarding()
    assert sum(counts) > PACKETS / 64
    assert counts[0] > sum(counts) / 2, "an eighth of the unit is 15 ms"


def test_packets_that_arrived_elsewhere_do_not_count(switch: Switch) -> None:
    program, _, capture, _ = switch
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as east:
        east.bind(("east", 0))
        for number in range(PACKETS):
            east.send(frame(ipv4(0, number.to_bytes(8, "big"))))
    received(capture, PACKETS)
    assert sum(program.forwarding()) == 0
