# SPDX-License-Identifier: Apache-2.0
"""bpf/tag.bpf.c on real transfers, captured at the receiver."""

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from sluice.dataplane.sockopt import Attachment
from sluice.dataplane.tagger import Tagger, TagSettings
from sluice.hostagent.link import tag_burst_bytes
from sluice.hostagent.sockets import FlowFields, declare
from sluice.policy import tags
from sluice.runtime.wait import wait_until
from tests.kernel import lab
from tests.kernel.capture import FIN, SYN, Capture, Packet, data_of, parse, tcp_frame
from tests.kernel.conftest import V4, V6, Pair
from tests.kernel.lab import Namespace, send_and_receive
from tests.kernel.watching import close_in_order, wait_acknowledged

LONG_GAP_NS = 60_000_000_000
ECT0 = 2
TFO_WITHOUT_COOKIE = 0x204
VXLAN_BYTES = 14 + 20 + 8 + 8

HOSTS = pytest.mark.parametrize("host", [V4["b"], V6["b"]], ids=["ipv4", "ipv6"])
"""Address of b."""


class Tagged(NamedTuple):
    """A connection from a, whose packets the tagger tags, and what arrives at b."""

    tagger: Tagger
    capture: Capture
    client: socket.socket
    server: socket.socket


@contextlib.contextmanager
def tagged(
    pair: Pair, settings: TagSettings, host: str = V4["b"], control: str | None = None
) -> Iterator[Tagged]:
    with Tagger(settings) as tagger, Capture(pair.b, "eth0") as capture:
        tagger_attach(tagger, pair.a)
        with pair.connection(host, control) as (client, server):
            yield Tagged(tagger, capture, client, server)


def first_byte(packets: list[Packet]) -> int:
    """Return the sequence number of the first data byte, which follows the SYN."""
    return next(packet.seq for packet in packets if packet.flags & SYN) + 1


def sent_once(packets: list[Packet]) -> list[Packet]:
    """Return the packets with data that had not been sent before. On a slow machine TCP repeats some."""
    ends: dict[int, int] = {}
    new = []
    for packet in data_of(packets):
        end = packet.seq + packet.data_bytes
        if 0 < (end - ends.get(packet.source_port, packet.seq)) % 2**32 < 2**31:
            ends[packet.source_port] = end
            new.append(packet)
    return new


def expected_tag(packet: Packet, start: int) -> int:
    return tags.attained_tag((packet.seq - start) % 2**32)


@HOSTS
def test_every_segment_carries_the_attained_service_before_it(pair: Pair, host: str) -> None:
    with tagged(pair, TagSettings(LONG_GAP_NS), host, "reno") as (_, capture, client, server):
        send_and_receive(client, server, 400_000)
        close_in_order(client, server)
        packets = capture.packets()
    start = first_byte(packets)
    data = data_of(packets)
    assert sum(p.data_bytes for p in data) >= 400_000
    assert [p.dscp for p in data] == [expected_tag(p, start) for p in data]
    assert len({p.dscp for p in data}) > 15, "400 KB cross many buckets"
    assert all(p.checksums_ok for p in packets)
    assert {p.dscp for p in packets if p.flags & SYN} == {tags.ATTAINED_FIRST}
    fins = [p for p in packets if p.flags & FIN]
    assert fins
    assert all(p.dscp == expected_tag(p, start) for p in fins)
    first_sent = sent_once(data)
    assert {p.ecn for p in first_sent} == {ECT0}
    assert {p.ecn for p in packets if p not in first_sent} <= {0}, "RFC 3168, section 6.1.5, for a repetition"


@pytest.mark.parametrize(("host", "answer_bytes"), [(V4["b"], 50_000), (V6["b"], 0)])
def test_acks_and_fin_carry_the_tag_of_their_own_direction(pair: Pair, host: str, answer_bytes: int) -> None:
    """In a direction without data no flow has completed, so its FIN is untagged."""
    with Tagger(TagSettings(LONG_GAP_NS)) as tagger:
        tagger_attach(tagger, pair.b)
        with pair.connection(host) as (client, server):
            send_and_receive(server, client, answer_bytes)
            with Capture(pair.a, "eth0") as capture:
                send_and_receive(client, server, 300_000)
                close_in_order(client, server)
                packets: list[Packet] = []

                def fin_is_back() -> bool:
                    packets.extend(capture.packets())
                    return any(p.flags & FIN for p in packets)

                wait_until(fin_is_back, "the FIN comes back")
    silent = [p for p in packets if p.protocol == socket.IPPROTO_TCP and not p.data_bytes]
    assert {p.dscp for p in silent if p.flags & FIN} == {
        tags.attained_tag(answer_bytes) if answer_bytes else 0
    }
    assert {p.dscp for p in silent if not p.flags & (FIN | SYN)} == {tags.attained_tag(answer_bytes)}


def tagger_attach(tagger: Tagger, ns: Namespace) -> None:
    with ns:
        tagger.attach("eth0")
        assert tagger.is_attached("eth0")


def test_counters_are_the_sent_packets(pair: Pair) -> None:
    with tagged(pair, TagSettings(LONG_GAP_NS)) as (tagger, capture, client, server):
        send_and_receive(client, server, 100_000)
        packets = [p for p in capture.packets() if p.version == 4]
        counted = tagger.counters()
    for tag in range(1, 41):
        seen = [p for p in packets if p.dscp == tag]
        assert counted[tag].packets >= len(seen)
    assert sum(c.packets for c in counted[1:]) >= len(packets) > 60
    assert counted[tags.attained_tag(50_000)].bytes > 1448


def test_a_message_after_the_idle_gap_starts_again_at_tag_1(pair: Pair) -> None:
    """A new gap takes effect at once."""
    with tagged(pair, TagSettings(LONG_GAP_NS)) as (tagger, capture, client, server):
        send_and_receive(client, server, 20_000)
        wait_acknowledged(client)
        first = data_of(capture.packets())
        tagger.set(TagSettings(1))
        send_and_receive(client, server, 1000)
        (second, *_) = data_of(capture.packets())
    start = first[0].seq
    assert [p.dscp for p in first] == [expected_tag(p, start) for p in first]
    assert (second.dscp, second.seq) == (tags.ATTAINED_FIRST, (start + 20_000) % 2**32)


def test_a_retransmission_after_the_gap_keeps_its_tag_and_the_flow_continues(pair: Pair) -> None:
    """The receiver refuses frames, but its capture still shows them. From then on any pause is longer than the gap."""
    with tagged(pair, TagSettings(LONG_GAP_NS)) as (tagger, capture, client, server):
        send_and_receive(client, server, 20_000)
        start = data_of(capture.packets())[0].seq
        with lab.refusing_frames(pair.b):
            client.sendall(bytes(5000))
            lost = wait_until(lambda: data_of(capture.packets()), "packets that no host accepts")
            tagger.set(TagSettings(1))
        lab.receive(server, 5000)
        repeated = [p for p in data_of(capture.packets()) if p.seq == lost[0].seq]
        tagger.set(TagSettings(LONG_GAP_NS))
        client.sendall(bytes(1000))
        assert len(server.recv(65536)) == 1000
        after = data_of(capture.packets())
    assert lost[0].dscp == tags.attained_tag(20_000)
    assert repeated
    assert {p.dscp for p in repeated} == {tags.attained_tag(20_000)}
    assert [p.dscp for p in after] == [expected_tag(p, start) for p in after]
    assert after[-1].dscp == tags.attained_tag(25_000)


@HOSTS
def test_datagrams_carry_the_sum_of_what_the_socket_sent(pair: Pair, host: str) -> None:
    sizes = [0, 100, 900, 1, 1400, 1400, 10, 1400]
    with Tagger(TagSettings(LONG_GAP_NS)) as tagger, pair.a, Capture(pair.b, "eth0") as capture:
        tagger.attach("eth0")
        with socket.socket(lab.family_of(host), socket.SOCK_DGRAM) as sender:
            for size in sizes:
                sender.sendto(bytes(size), (host, 9))
        packets = [p for p in capture.packets() if p.protocol == socket.IPPROTO_UDP]
    assert [p.data_bytes for p in packets] == sizes
    assert [p.dscp for p in packets] == [tags.attained_tag(sum(sizes[:i])) for i in range(len(sizes))]
    assert all(p.checksums_ok for p in packets)


def test_two_sockets_do_not_share_a_flow(pair: Pair) -> None:
    with (
        tagged(pair, TagSettings(LONG_GAP_NS)) as (_, capture, first, first_end),
        pair.connection() as (second, second_end),
    ):
        send_and_receive(first, first_end, 100_000)
        capture.packets()
        send_and_receive(second, second_end, 500)
        send_and_receive(first, first_end, 500)
        data = sent_once(capture.packets())
    assert [p.dscp for p in data] == [tags.ATTAINED_FIRST, tags.attained_tag(100_000)]


def test_a_reset_for_no_connection_carries_tag_1(pair: Pair) -> None:
    with Tagger(TagSettings(LONG_GAP_NS)) as tagger, Capture(pair.a, "eth0") as capture:
        tagger_attach(tagger, pair.b)
        for _ in range(3):
            with pair.a, socket.socket() as client, pytest.raises(ConnectionRefusedError):
                client.connect((V4["b"], 9))
        resets = capture.packets()
    assert len(resets) == 3
    assert {p.dscp for p in resets} == {tags.ATTAINED_FIRST}


def test_forwarded_packets_keep_the_dscp_that_their_host_gave_them(namespaces: list[Namespace]) -> None:
    a, router, b = lab.routed(namespaces)
    with Tagger(TagSettings(LONG_GAP_NS)) as tagger, router, Capture(b, "eth0") as capture:
        tagger.attach("east")
        with a, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 33 << 2 | ECT0)
            sender.sendto(b"x", ("10.2.0.1", 9))
        packets = wait_until(capture.packets, "the forwarded packet")
    assert [(p.dscp, p.ecn) for p in packets] == [(33, ECT0)]


def segment_of_others(to_mac: bytes, dscp: int, source: str = "10.9.0.7", port: int = 2000) -> bytes:
    """Return a frame that no IP socket has sent: a TCP segment of 100 bytes to V4["b"]."""
    return tcp_frame(to_mac, source, V4["b"], (1000, port), dscp=dscp)


def send_from_packet_socket(ns: Namespace, frame: bytes) -> None:
    with ns, socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind(("eth0", 0))
        sender.send(frame)


@contextlib.contextmanager
def guest(ns: Namespace) -> Iterator[int]:
    """Yield the file that a virtual machine's frames are written to. Its tap is on a bridge with eth0."""
    fd = lab.tap(ns, "tap0")
    ns.run("ip", "link", "add", "br0", "type", "bridge")
    for ifname in ("eth0", "tap0"):
        ns.run("ip", "link", "set", ifname, "master", "br0", "up")
    ns.run("ip", "link", "set", "br0", "up")
    yield fd
    os.close(fd)


@pytest.mark.parametrize("is_guest", [False, True], ids=["packet socket", "tap"])
def test_frames_of_others__keep_their_dscp(pair: Pair, is_guest: bool) -> None:
    """Those of a packet socket, and those of a virtual machine that come from its tap over a bridge."""
    other = bytes.fromhex(lab.hardware_address(pair.b).replace(":", ""))
    with (
        Tagger(TagSettings(LONG_GAP_NS)) as tagger,
        Capture(pair.b, "eth0") as capture,
        guest(pair.a) if is_guest else contextlib.nullcontext() as fd,
    ):
        tagger_attach(tagger, pair.a)
        for dscp in (0, 5, 40):
            frame = segment_of_others(other, dscp)

            def arrived(frame: bytes = frame) -> list[Packet]:
                """A bridge forwards nothing until it has noticed that its ports have a carrier."""
                send_from_packet_socket(pair.a, frame) if fd is None else os.write(fd, frame)
                return capture.packets()

            assert {p.dscp for p in wait_until(arrived, "the frame")} == {dscp}
        assert sum(counted.packets for counted in tagger.counters()[1:]) == 0, (
            "IPv6's own packets are untagged"
        )
        uses = [(use.dscp, use.overwritten) for use in tagger.foreign() if use.dscp in (5, 40)]
        assert uses == [(5, 0), (40, 0)]


def test_an_answer_with_a_cookie_carries_tag_1(pair: Pair) -> None:
    """It has no socket."""
    pair.b.sysctl("net.ipv4.tcp_syncookies", 2)
    with Tagger(TagSettings(LONG_GAP_NS)) as tagger, Capture(pair.a, "eth0") as capture:
        tagger_attach(tagger, pair.b)
        with pair.connection():
            answers = [p for p in capture.packets() if p.flags & SYN]
    assert {p.dscp for p in answers} == {tags.ATTAINED_FIRST}


@HOSTS
def test_a_socket_that_sends_to_many__has_a_flow_for_each(pair: Pair, host: str) -> None:
    ports, size_bytes, kind = (9, 10), 1200, (lab.family_of(host), socket.SOCK_DGRAM)
    with Tagger(TagSettings(LONG_GAP_NS)) as tagger, Capture(pair.b, "eth0") as capture, pair.a:
        tagger.attach("eth0")
        with socket.socket(*kind) as server, socket.socket(*kind) as other:
            for _ in range(20):
                server.sendto(bytes(size_bytes), (host, ports[0]))
            server.sendto(bytes(size_bytes), (host, ports[1]))
            other.sendto(bytes(size_bytes), (host, ports[0]))
        packets = [p for p in capture.packets() if p.protocol == socket.IPPROTO_UDP]
    to_first = [tags.attained_tag(size_bytes * before) for before in range(20)]
    assert [p.dscp for p in packets] == [*to_first, tags.ATTAINED_FIRST, tags.ATTAINED_FIRST]


@pytest.mark.parametrize("inside", [False, True], ids=["below", "below and inside"])
def test_a_tunnel__its_packets_carry_what_the_packets_inside_carry(pair: Pair, inside: bool) -> None:
    """A tagger below the tunnel alone, and one at each of both interfaces, which count a segment once."""
    lab.vxlan(pair.a, V4["a"], V4["b"], "10.8.0.1/24", "tos", "inherit" if inside else "0")
    lab.vxlan(pair.b, V4["b"], V4["a"], "10.8.0.2/24")
    with Tagger(TagSettings(LONG_GAP_NS)) as tagger, Capture(pair.b, "eth0") as capture:
        tagger_attach(tagger, pair.a)
        if inside:
            with pair.a:
                tagger.attach("vx0")
        with pair.connection("10.8.0.2") as (client, server):
            send_and_receive(client, server, 100_000)
            close_in_order(client, server)
            frames = [frame for frame, _ in capture.frames()]
        assert tagger.foreign() == ()
    pairs = [(parse(frame), parse(frame[VXLAN_BYTES:])) for frame in frames]
    of_tcp = [
        (outer, inner) for outer, inner in pairs if outer and inner and inner.protocol == socket.IPPROTO_TCP
    ]
    start = first_byte([inner for _, inner in of_tcp])
    data = [(outer, inner) for outer, inner in of_tcp if inner.data_bytes]
    assert [outer.dscp for outer, _ in data] == [expected_tag(inner, start) for _, inner in data]
    assert len({outer.dscp for outer, _ in data}) > 10
    assert all(inner.dscp == (outer.dscp if inside else 0) for outer, inner in of_tcp)


def test_detach__leaves_packets_unchanged(pair: Pair) -> None:
    with Tagger() as tagger, pair.a, Capture(pair.b, "eth0") as capture:
        tagger.attach("eth0")
        assert tagger.detach("eth0")
        assert not tagger.detach("eth0")
        assert not tagger.is_attached("eth0")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"x", (V4["b"], 9))
        assert {p.dscp for p in capture.packets()} == {0}


def packets_of(
    pair: Pair, settings: TagSettings, size_bytes: int, deadline_s: float, after: bytes = b""
) -> list[Packet]:
    """Return the packets of a connection that sends a declared flow, and these bytes after it."""
    with contextlib.closing(Attachment()), tagged(pair, settings) as (_, capture, client, server):
        declare(client, size_bytes=size_bytes, deadline_s=deadline_s)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        send_and_receive(client, server, size_bytes)
        if after:
            client.sendall(after)
            assert server.recv(100)
        client.close()
        server.close()
        return capture.packets()


@pytest.mark.parametrize("urgent_after_bytes", [0, 50_000])
def test_a_deadline_flow_carries_its_urgency_after_the_set_bytes(pair: Pair, urgent_after_bytes: int) -> None:
    settings = TagSettings(LONG_GAP_NS, deadlines=True, urgent_after_bytes=urgent_after_bytes)
    packets = packets_of(pair, settings, 200_000, 20.0)
    sent = [((p.seq - first_byte(packets)) % 2**32, p) for p in data_of(packets)]
    head = [(p.dscp, expected_tag(p, first_byte(packets))) for at, p in sent if at < urgent_after_bytes]
    rest = {p.dscp for at, p in sent if at >= urgent_after_bytes}
    assert bool(head) == bool(urgent_after_bytes)
    assert all(found == expected for found, expected in head)
    assert rest
    assert all(tags.URGENCY_FIRST <= tag < tags.urgency_tag(tags.URGENCY_ONE) for tag in rest), (
        "there is enough time"
    )


@pytest.mark.parametrize("forgets_late", [True, False])
def test_a_late_flow_is_the_most_urgent_or_one_without_a_deadline(pair: Pair, forgets_late: bool) -> None:
    settings = TagSettings(LONG_GAP_NS, deadlines=True, forgets_late=forgets_late)
    packets = packets_of(pair, settings, 100_000, 1e-6)
    found_and_attained = [(p.dscp, expected_tag(p, first_byte(packets))) for p in data_of(packets)]
    if forgets_late:
        assert all(found == attained for found, attained in found_and_attained)
    else:
        assert {found for found, _ in found_and_attained} == {tags.URGENCY_LAST}


def test_the_bytes_after_a_declared_flow_are_not_its_own(pair: Pair) -> None:
    """Their first segment begins where the flow ended. A segment without data there still belongs to it."""
    size_bytes = 50_000
    packets = packets_of(
        pair, TagSettings(LONG_GAP_NS, deadlines=True), size_bytes, 600.0, after=b"another message"
    )
    start = first_byte(packets)
    after = {p.dscp for p in data_of(packets) if (p.seq - start) % 2**32 >= size_bytes}
    assert after == {tags.attained_tag(size_bytes)}
    assert {p.dscp for p in data_of(packets) if (p.seq - start) % 2**32 < size_bytes} == {tags.URGENCY_FIRST}


@pytest.mark.parametrize("declared", [{"deadline_s": 600.0}, {"deadline_s": 600.0, "size_bytes": 200_000}])
def test_a_pause_ends_a_declaration_only_without_a_size(pair: Pair, declared: FlowFields) -> None:
    gap_s = 0.02
    settings = TagSettings(round(gap_s * 1e9), deadlines=True, urgent_after_bytes=50_000)
    with contextlib.closing(Attachment()), tagged(pair, settings) as (_, capture, client, server):
        declare(client, **declared)
        for _ in range(2):
            send_and_receive(client, server, 100_000)
            time.sleep(5 * gap_s)
        packets = capture.packets()
    start = first_byte(packets)
    later = {p.dscp for p in sent_once(packets) if (p.seq - start) % 2**32 >= 100_000}
    assert {tag >= tags.URGENCY_FIRST for tag in later} == {"size_bytes" in declared}


@HOSTS
def test_foreign__names_the_dscp_that_a_program_set(pair: Pair, host: str) -> None:
    option = (socket.IPPROTO_IP, socket.IP_TOS)
    if ":" in host:
        option = (socket.IPPROTO_IPV6, socket.IPV6_TCLASS)
    with Tagger(TagSettings(LONG_GAP_NS)) as tagger:
        tagger_attach(tagger, pair.a)
        assert tagger.foreign() == ()
        with pair.a, socket.socket(lab.family_of(host), socket.SOCK_DGRAM) as phone:
            phone.setsockopt(*option, 46 << 2 | 1)
            phone.bind(("", 5060))
            cpus = os.sched_getaffinity(0)
            for cpu in (*sorted(cpus)[:2], min(cpus)):
                os.sched_setaffinity(0, {cpu})
                phone.sendto(b"x", (host, 9))
            os.sched_setaffinity(0, cpus)
        (use,) = tagger.foreign()
        assert (use.dscp, use.overwritten, use.forwarded) == (46, 2 + (len(cpus) > 1), 0)
        assert str(use) == "DSCP 46 (EF) from UDP port 5060"


def test_foreign__an_answer_of_the_kernel_repeats_the_dscp_of_another(pair: Pair) -> None:
    """A reset for no connection has the DSCP of what it answers: of a SYN to no port, of a segment to a listener."""
    with Tagger(TagSettings(LONG_GAP_NS)) as tagger, lab.listen(pair.b, V4["b"]) as listener:
        tagger_attach(tagger, pair.b)
        with pair.a, socket.socket() as client:
            client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 33 << 2)
            with pytest.raises(ConnectionRefusedError):
                client.connect((V4["b"], 9))
        port, mac = listener.getsockname()[1], bytes.fromhex(lab.hardware_address(pair.b).replace(":", ""))
        with Capture(pair.a, "eth0") as capture:
            send_from_packet_socket(pair.a, segment_of_others(mac, 34, V4["a"], port))
            (reset,) = wait_until(capture.packets, "the reset")
        assert reset.dscp == tags.ATTAINED_FIRST
        assert tagger.counters()[tags.ATTAINED_FIRST].packets == 2
        assert tagger.foreign() == ()


def test_reserved__a_packet_keeps_the_dscp_and_no_tag_has_it(pair: Pair) -> None:
    with Tagger(TagSettings(LONG_GAP_NS, reserved_dscp=(1, 46))) as tagger:
        tagger_attach(tagger, pair.a)
        with pair.a:
            for dscp in (46, 0):
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                    sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
                    sender.sendto(b"x", (V4["b"], 9))
        sent = tagger.counters()
        assert (sent[46].packets, sent[2].packets, sent[1].packets) == (1, 1, 0)


def test_a_host_that_only_watches__writes_no_dscp_and_says_which_ones_others_use(pair: Pair) -> None:
    """The state of connections goes on, so that their tags are right as soon as the policy acts."""
    with tagged(pair, TagSettings(LONG_GAP_NS, writes=False)) as (tagger, capture, client, server):
        client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 46 << 2)
        send_and_receive(client, server, 50_000)
        assert [use.dscp for use in tagger.foreign()] == [46]
        tagger.set(TagSettings(LONG_GAP_NS))
        client.sendall(b"x")
        assert server.recv(1)
        client.close()
        server.close()
        *before, last = data_of(capture.packets())
    assert {packet.dscp for packet in before} == {46}
    assert last.dscp == tags.attained_tag(50_000)


@HOSTS
def test_a_request_in_the_syn_is_a_flow(pair: Pair, host: str) -> None:
    """TCP Fast Open. The FIN says how much the flow has sent, so that switches count it."""
    for ns in (pair.a, pair.b):
        ns.sysctl("net.ipv4.tcp_fastopen", 3 | TFO_WITHOUT_COOKIE)
    with Tagger(TagSettings(LONG_GAP_NS)) as tagger, lab.listen(pair.b, host) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 5)
        tagger_attach(tagger, pair.a)
        with Capture(pair.b, "eth0") as capture, pair.a, socket.socket(lab.family_of(host)) as client:
            client.sendto(bytes(500), socket.MSG_FASTOPEN, listener.getsockname()[:2])
            server, _ = listener.accept()
            with server:
                server.settimeout(300)
                lab.receive(server, 500)
                client.close()
                assert server.recv(1) == b""
            packets = capture.packets()
    syn = next(p for p in packets if p.flags & SYN)
    assert (syn.data_bytes, syn.dscp) == (500, tags.ATTAINED_FIRST)
    assert {p.dscp for p in packets if p.flags & FIN} == {tags.attained_tag(500)}


SIZE_BYTES = 500_000
BURST_GAP_S = 2.0
"""Longer than a busy machine keeps the sender waiting: a pause begins a flow."""
FIRST_WINDOW = 100
"""Packets. So the first packet that TCP builds is as long as it can be."""
ALL = 65_535
ON, OFF = ("tx", "on", "tso", "on", "gso", "on"), ("tx", "off", "tso", "off", "gso", "off")


@pytest.mark.parametrize(
    ("features", "segments", "first_bytes"),
    [(ON, ALL, 0), (ON, 4, 4 * 1460), (OFF, 1, 1460)],
    ids=["on", "on-4", "off-1"],
)
def test_no_more_payload_leaves_under_a_tag_than_the_agent_reports(
    pair: Pair, features: tuple[str, ...], segments: int, first_bytes: int
) -> None:
    """A packet of many segments has one tag, which shows the place of its last ten."""
    pair.a.run("ethtool", "-K", "eth0", *features)
    pair.a.run("ip", "link", "set", "dev", "eth0", "gso_max_segs", str(segments))
    pair.a.run("ip", "route", "add", V4["b"], "dev", "eth0", "initcwnd", str(FIRST_WINDOW))
    with pair.a:
        burst_bytes = tag_burst_bytes("eth0")
    with (
        Tagger(TagSettings(round(BURST_GAP_S * 1e9))) as tagger,
        lab.listen(pair.b, V4["b"], "reno") as listener,
    ):
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_000_000)
        with pair.a:
            tagger.attach("eth0")
        client, server = lab.dial(pair.a, listener, "reno")
        send_and_receive(
            client, server, SIZE_BYTES
        )  # TCP builds no packet above half of the largest window so far
        time.sleep(1.2 * BURST_GAP_S)
        with Capture(pair.b, "eth0") as capture:
            send_and_receive(client, server, SIZE_BYTES)
            client.close()
            server.close()
            packets = capture.packets()
    flow = sent_once(packets)
    under_bytes = [sum(p.data_bytes for p in flow if p.dscp <= tag) for tag in range(1, tags.ATTAINED_LAST)]
    assert all(sent <= edge + burst_bytes for sent, edge in zip(under_bytes, tags.EDGES_BYTES, strict=False))
    assert 0.9 * first_bytes <= under_bytes[0] <= first_bytes
