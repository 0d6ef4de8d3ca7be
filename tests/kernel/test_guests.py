# SPDX-License-Identifier: Apache-2.0
"""Tags of virtual machines (bpf/guest.bpf.h): real TCP behind a tap on a bridge, captured at the other host."""

import contextlib
import os
import select
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sluice.dataplane.clsact import FEW_PACKETS
from sluice.dataplane.congestion import DEFAULT_CONTROL, HostEntry
from sluice.dataplane.port import PortProgram
from sluice.dataplane.tagger import Tagger, TagSettings
from sluice.hostagent.tagger import CHECK_EVERY, Guests, HostTagger
from sluice.policy.schema.desired import Policy
from sluice.policy.tags import ATTAINED_FIRST, ATTAINED_LAST, BURST_BYTES, attained_tag
from sluice.policy.wire.agents import HostSettings
from sluice.runtime.wait import wait_until
from tests.kernel import lab
from tests.kernel.capture import ACK, FIN, SYN, Capture, Packet, data_of, parse, tcp_frame
from tests.kernel.conftest import V4, Pair
from tests.kernel.lab import Namespace, send_and_receive
from tests.kernel.objects import BPF_PROG_ATTACH, BPF_PROG_DETACH, BPF_TCX_INGRESS, ending_program, tcx
from tests.kernel.port_frames import OPEN
from tests.kernel.watching import RESET_ON_CLOSE, close_in_order, wait_acknowledged

VNET_HEADER = bytes(10)
VXLAN_BYTES = 14 + 20 + 8 + 8
LONG = TagSettings(60_000_000_000)
AT_ONCE = TagSettings(1)
"""Any pause ends a flow."""
GUEST = {V4["b"]: "10.9.0.3", "fd09::2": "fd09::3"}
"""The guest's own address, by the address of the other host."""
HOSTS = pytest.mark.parametrize("host", list(GUEST), ids=["ipv4", "ipv6"])


class Guest:
    """A network stack of its own behind tap0 of a host, where a bridge connects it with an uplink.

    A thread moves the frames between the two, as QEMU does, with segmentation offload.
    """

    def __init__(self, host: Namespace, uplink: str = "eth0") -> None:
        self.inside = Namespace()
        with self.inside, HostEntry() as entry:
            entry.set(DEFAULT_CONTROL)  # its own: a virtual machine's sockets do not have those of its host
        self.outside, self._own = (
            lab.tap(host, "tap0", offload=True),
            lab.tap(self.inside, "eth0", offload=True),
        )
        host.run("ip", "link", "add", "br0", "type", "bridge")
        host.run("ip", "link", "set", "br0", "up")
        for ifname in (uplink, "tap0"):
            host.run("ip", "link", "set", ifname, "master", "br0", "up")
        self.inside.sysctl("net.ipv6.conf.eth0.accept_dad", 0)
        self.inside.sysctl("net.ipv4.tcp_ecn", 1)
        self.inside.run("ip", "link", "set", "eth0", "up")
        lab.address(self.inside, "eth0", *(f"{own}/{64 if ':' in own else 24}" for own in GUEST.values()))
        self._end_read, self._end = os.pipe()
        self._thread = threading.Thread(target=self._move, daemon=True)
        self._thread.start()

    def _move(self) -> None:
        other = {self.outside: self._own, self._own: self.outside}
        while self._end_read not in (ready := select.select([*other, self._end_read], [], [])[0]):
            for fd in ready:
                try:
                    os.write(other[fd], os.read(fd, 1 << 17))
                except OSError as error:  # the interface is down; pytest shows it if the test fails
                    print("a frame was lost:", error)

    def write(self, frame: bytes) -> None:
        os.write(self.outside, VNET_HEADER + frame)

    @contextlib.contextmanager
    def connection(self, to: Namespace, host: str = V4["b"]) -> Iterator[tuple[socket.socket, socket.socket]]:
        """Connect from the guest to a host whose bridge may need a moment to forward."""
        with lab.listen(to, host, "reno") as listener:
            client, server = lab.dial(self.inside, listener, "reno")
        with client, server:
            yield client, server

    def close(self) -> None:
        os.write(self._end, b"x")
        self._thread.join()
        for fd in (self.outside, self._own, self._end, self._end_read):
            os.close(fd)
        self.inside.close()


@pytest.fixture
def guest(pair: Pair) -> Iterator[Guest]:
    one = Guest(pair.a)
    yield one
    one.close()


@contextlib.contextmanager
def tagging(pair: Pair, settings: TagSettings = LONG) -> Iterator[Tagger]:
    """As an agent does on the host of a guest."""
    with Tagger(settings) as tagger, pair.a:
        tagger.attach("eth0")
        tagger.attach_guest("tap0")
        yield tagger


def segment(to: Namespace, source_port: int, seq: int, flags: int, data_bytes: int, vlan: int = 0) -> bytes:
    """Return a frame of the guest with a TCP segment to port 2000 of a host."""
    mac = bytes.fromhex(lab.hardware_address(to).replace(":", ""))
    ports = (source_port, 2000)
    return tcp_frame(
        mac, GUEST[V4["b"]], V4["b"], ports, seq=seq, flags=flags, data_bytes=data_bytes, vlan=vlan
    )


def test_a_program_that_is_skipped_is_a_problem(pair: Pair, guest: Guest) -> None:
    """The count of packets that the program has seen moves with the interface's."""
    with ending_program() as other:
        with pair.a:
            agent = HostTagger(["eth0"], guests=["tap*"])
            agent.attach()

        def looks() -> tuple[int, str]:
            for _ in range(2 * FEW_PACKETS):
                guest.write(segment(pair.b, 1000, 100, SYN, 0))
            with pair.a:
                for _ in range(CHECK_EVERY):
                    agent.update(None)
            return len(agent.guests), agent.guests.problem

        assert [looks() for _ in range(3)] == [(1, "")] * 3
        try:
            tcx(BPF_PROG_ATTACH, pair.a, "tap0", other, BPF_TCX_INGRESS)
        except OSError as error:
            pytest.skip(f"no TCX here: {error}")
        count, problem = [looks() for _ in range(3)][-1]
        assert count == 0
        assert problem.startswith(
            "packets of the guest at tap0 are not tagged: tap0: another program ends the chain"
        )
        tcx(BPF_PROG_DETACH, pair.a, "tap0", other, BPF_TCX_INGRESS)
        assert looks() == (1, "")
        with pair.a:
            agent.detach()


@HOSTS
def test_every_segment_carries_the_attained_service_before_it(pair: Pair, guest: Guest, host: str) -> None:
    """The guest's own DSCP is overwritten, and noted with the port that uses it. Its offload makes long packets."""
    with tagging(pair) as tagger, Capture(pair.b, "eth0") as capture:
        with guest.connection(pair.b, host) as (client, server):
            option = (
                (socket.IPPROTO_IPV6, socket.IPV6_TCLASS)
                if ":" in host
                else (socket.IPPROTO_IP, socket.IP_TOS)
            )
            client.setsockopt(*option, 46 << 2)
            send_and_receive(client, server, 400_000)
            local_port = client.getsockname()[1]
            close_in_order(client, server)
        packets = [p for p in capture.packets() if p.source_port == local_port]
        counted = tagger.counters()
        uses = [use for use in tagger.foreign() if use.dscp == 46]
    start = next(p.seq for p in packets if p.flags & SYN) + 1
    data = data_of(packets)
    assert sum(p.data_bytes for p in data) >= 400_000
    for packet in data:  # of one long packet, all segments have the tag of the last ten
        begin = (packet.seq - start) % 2**32
        least = attained_tag(max(0, begin + packet.data_bytes - BURST_BYTES))
        assert least <= packet.dscp <= attained_tag(begin + 65_536 - BURST_BYTES)
    assert len({p.dscp for p in data}) > 5
    assert max(p.dscp for p in data) >= attained_tag(300_000)
    assert all(p.checksums_ok for p in packets)
    assert {p.dscp for p in packets if p.flags & SYN} == {ATTAINED_FIRST}
    fins = [p for p in packets if p.flags & FIN]
    assert {p.dscp == attained_tag((p.seq - start) % 2**32) for p in fins} == {True}
    assert sum(c.packets for c in counted[1:]) > 0, "packets of guests count where they leave the host"
    assert [(use.protocol, use.src_port, use.forwarded) for use in uses] == [(6, local_port, 0)]


def test_a_message_after_the_idle_gap_starts_again_at_tag_1(pair: Pair, guest: Guest) -> None:
    with tagging(pair) as tagger, Capture(pair.b, "eth0") as capture, guest.connection(pair.b) as (near, far):
        send_and_receive(near, far, 20_000)
        wait_acknowledged(near)
        tagger.set(AT_ONCE)
        capture.packets()
        send_and_receive(near, far, 1000)
        (after, *_) = data_of(capture.packets())
    assert after.dscp == ATTAINED_FIRST


def test_a_flow_whose_data_is_not_acknowledged__is_not_idle(pair: Pair, guest: Guest) -> None:
    patience = ("via", V4["b"], "onlink", "rto_min", "100s")
    sent: list[Packet] = []
    with tagging(pair) as tagger, Capture(pair.b, "eth0") as capture:
        guest.inside.run("ip", "route", "add", f"{V4['b']}/32", "dev", "eth0", *patience)
        with guest.connection(pair.b) as (near, far):
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            send_and_receive(near, far, 20_000)
            wait_acknowledged(near)
            start = data_of(capture.packets())[0].seq

            def have_left(size_bytes: int) -> bool:
                sent.extend(data_of(capture.packets()))
                return any((p.seq + p.data_bytes - start) % 2**32 == size_bytes for p in sent)

            with lab.refusing_frames(pair.b):
                near.sendall(bytes(5000))
                wait_until(lambda: have_left(25_000), "packets that no host accepts")
                tagger.set(AT_ONCE)
                near.sendall(bytes(3000))
                wait_until(lambda: have_left(28_000), "more of them")
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    assert all(p.dscp >= attained_tag(20_000) for p in sent), (
        "with offload, a segment has the tag of some before it"
    )


def test_a_connection_whose_start_was_not_seen__is_a_large_flow_until_it_is_idle(
    pair: Pair, guest: Guest
) -> None:
    """As after a restart of the agent. No one knows the size of that flow, so its end is untagged."""
    with (
        Capture(pair.b, "eth0") as capture,
        guest.connection(pair.b) as (near, far),
        guest.connection(pair.b) as (other, other_far),
        tagging(pair) as tagger,
    ):
        send_and_receive(near, far, 1000)
        send_and_receive(other, other_far, 1000)
        unknown = data_of(capture.packets())
        close_in_order(other, other_far)
        (end, *_) = (p for p in capture.packets() if p.flags & FIN)
        wait_acknowledged(near)
        tagger.set(AT_ONCE)
        send_and_receive(near, far, 1000)
        known = data_of(capture.packets())
    assert {p.dscp for p in unknown} == {ATTAINED_LAST}
    assert end.dscp == 0
    assert {p.dscp for p in known} == {ATTAINED_FIRST}


@pytest.fixture
def one_cpu() -> Iterator[None]:
    """The kernel's table keeps the newest entries of another processor for longer."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.usefixtures("one_cpu", "guest")
def test_a_connection_whose_state_gave_way_to_others__is_a_large_flow(pair: Pair, guest: Guest) -> None:
    """The table holds 65,536 flows. A guest that opens more than that loses its own flows' place, never gains one."""
    syn = bytearray(segment(pair.b, 0, 1, SYN, 0))
    source_port = 14 + 20
    with tagging(pair), guest.connection(pair.b) as (client, server):
        send_and_receive(client, server, 1000)
        for target in range(2):
            syn[source_port + 2 : source_port + 4] = struct.pack("!H", target + 1)
            for port in range(2**16):
                syn[source_port : source_port + 2] = struct.pack("!H", port)
                guest.write(bytes(syn))
        with Capture(pair.b, "eth0") as capture:
            send_and_receive(client, server, 1000)
            (packet, *_) = [p for p in data_of(capture.packets()) if p.data_bytes == 1000]
    assert packet.dscp == ATTAINED_LAST


@HOSTS
def test_datagrams_carry_the_sum_of_what_was_sent_to_their_port(pair: Pair, guest: Guest, host: str) -> None:
    sizes, probe_bytes, other_bytes = [100, 900, 1, 1400, 1400], 7, 10
    with guest.inside:
        sender = socket.socket(lab.family_of(host), socket.SOCK_DGRAM)

    def forwards() -> bool:
        """A bridge forwards nothing before it has noticed its ports."""
        sender.sendto(bytes(probe_bytes), (host, 7))
        return bool(capture.packets())

    def came() -> list[Packet]:
        packets = (p for p in capture.packets() if p.protocol == socket.IPPROTO_UDP and p.dscp)
        return [p for p in packets if p.data_bytes != probe_bytes]

    with tagging(pair), Capture(pair.b, "eth0") as capture, sender:
        wait_until(forwards, "a datagram")
        for size in sizes:
            sender.sendto(bytes(size), (host, 9))
        sender.sendto(bytes(other_bytes), (host, 10))
        found = lab.collected(came, len(sizes) + 1, "all datagrams")
    assert [p.data_bytes for p in found] == [*sizes, other_bytes]
    to_port = [attained_tag(sum(sizes[:i])) for i in range(len(sizes))]
    assert [p.dscp for p in found] == [*to_port, ATTAINED_FIRST], "another port, another flow"


@pytest.mark.parametrize(
    ("settings", "dscp"),
    [
        pytest.param(LONG, 0, id="overwritten"),
        pytest.param(replace(LONG, reserved_dscp=(46,)), 46, id="reserved"),
        pytest.param(replace(LONG, writes=False), 46, id="watch only"),
    ],
)
def test_what_a_guest_wrote_is_no_tag(pair: Pair, guest: Guest, settings: TagSettings, dscp: int) -> None:
    """Also of a protocol without tags."""
    with tagging(pair, settings) as tagger, Capture(pair.b, "eth0") as capture:
        with guest.inside:
            guest.inside.run("ping", "-c", "1", "-w", "300", "-Q", str(46 << 2), V4["b"])
        frames = [frame for frame, _ in capture.frames() if frame[12:14] == b"\x08\x00"]
        pings = [frame for frame in frames if frame[23] == socket.IPPROTO_ICMP]  # not a late report of IGMP
        assert {frame[15] >> 2 for frame in pings} == {dscp}
        assert [(use.protocol, use.forwarded) for use in tagger.foreign() if use.dscp == 46] == [
            (socket.IPPROTO_ICMP, 0)
        ]


def test_a_flow_of_a_virtual_lan_is_another_flow(pair: Pair, guest: Guest) -> None:
    with tagging(pair), Capture(pair.b, "eth0") as capture:

        def forwards() -> bool:
            guest.write(segment(pair.b, 1000, 100, SYN, 0))
            return bool(capture.packets())

        wait_until(forwards, "a frame")
        guest.write(segment(pair.b, 1000, 101, ACK, 50))
        guest.write(segment(pair.b, 1000, 151, ACK, 50, vlan=7))

        def came() -> list[tuple[int, int | None]]:
            with_data = 14 + 40 + 50
            return [(frame[15] >> 2, tci) for frame, tci in capture.frames() if len(frame) == with_data]

        frames = lab.collected(came, 2, "both segments")
    assert frames == [(ATTAINED_FIRST, None), (ATTAINED_LAST, 7)]


def test_a_tunnel__its_packets_carry_what_the_packets_inside_carry(pair: Pair) -> None:
    """The host's bridge has a tunnel to the other host instead of eth0."""
    lab.vxlan(pair.a, V4["a"], V4["b"], "10.8.0.1/24")
    lab.vxlan(pair.b, V4["b"], V4["a"], "10.8.0.2/24")
    with contextlib.closing(Guest(pair.a, "vx0")) as guest, tagging(pair) as tagger:
        guest.inside.run("ip", "link", "set", "dev", "eth0", "mtu", "1400")
        lab.address(guest.inside, "eth0", "10.8.0.3/24")
        with Capture(pair.b, "eth0") as capture, guest.connection(pair.b, "10.8.0.2") as (near, far):
            send_and_receive(near, far, 100_000)
            close_in_order(near, far)
            frames = [frame for frame, _ in capture.frames()]
        assert tagger.foreign() == ()
    pairs = [(parse(frame), parse(frame[VXLAN_BYTES:])) for frame in frames]
    found = [(outer, inner) for outer, inner in pairs if outer and inner and inner.data_bytes]
    assert max(inner.dscp for _, inner in found) > 10
    assert all(outer.dscp == inner.dscp for outer, inner in found)


def test_guests_come_and_go(pair: Pair, guest: Guest) -> None:
    """Interfaces of a pattern get their programs when they appear. Those of a port agent stay beside them."""
    wanted = HostSettings.of(Policy.from_document({"scheme": "pias", "thresholds": ["10KB"], "queues": 2}))
    with pair.a, PortProgram() as port:
        before = pair.a.run("tc", "qdisc", "show", "dev", "tap0")
        agent = HostTagger(["eth0"], guests=["tap*", "eth*"])
        agent.attach()
        agent.update(wanted)
        assert len(agent.guests) == 1, "the agent's own interface is no guest"
        port.attach("tap0", OPEN)
        second = lab.tap(pair.a, "tap1")
        agent.update(wanted)
        assert (len(agent.guests), agent.guests.problem, port.is_attached("tap0")) == (2, "", True)
        os.close(second)
        pair.a.run("tc", "filter", "del", "dev", "tap0", "ingress")
        assert "sluice_guest" not in pair.a.run("tc", "filter", "show", "dev", "tap0", "ingress")
        for _ in range(5):
            agent.update(wanted)
        assert "sluice_guest" in pair.a.run("tc", "filter", "show", "dev", "tap0", "ingress")
        assert agent.burst_bytes == BURST_BYTES
        agent.detach()
        assert port.is_attached("tap0")
        port.detach("tap0")
        assert pair.a.run("tc", "qdisc", "show", "dev", "tap0") == before


def test_a_guest_that_cannot_be_tagged__is_named(pair: Pair, guest: Guest) -> None:
    guests = Guests(["tap0"], ["eth0"])
    with pair.a, Tagger() as tagger:
        pair.a.run("tc", "qdisc", "add", "dev", "tap0", "ingress")
        guests.follow(tagger, looks=True)
        assert "tc qdisc del dev tap0 ingress" in guests.problem
        pair.a.run("tc", "qdisc", "del", "dev", "tap0", "ingress")
        guests.follow(tagger, looks=True)
        assert guests.problem == ""
