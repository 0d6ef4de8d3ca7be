# SPDX-License-Identifier: Apache-2.0
"""QJUMP's levels on a host: the tag that a program's SO_PRIORITY gives, and the classes that limit the levels."""

import re
import socket
from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from sluice.dataplane.link_queues import CLASSES, KINDS, make, queue_counters
from sluice.dataplane.rtnetlink import Kind
from sluice.dataplane.tagger import Tagger, TagSettings
from sluice.hostagent.link import HostLink
from sluice.hostagent.tagger import HostTagger
from sluice.policy.errors import EnvironmentLacking
from sluice.policy.schema.desired import Policy
from sluice.policy.units import FRAME_BYTES
from sluice.policy.wire.agents import HostSettings
from sluice.topologies.commands import LINK_CLASS
from tests.kernel.capture import FIN, SYN, Capture
from tests.kernel.conftest import V4, V6, Pair
from tests.kernel.lab import collected, send_and_receive
from tests.kernel.watching import close_in_order

LAST = 8
PORT = 9
UDP_BYTES = FRAME_BYTES - 42
"""Payload of a datagram that fills a frame."""
LEVELS = {"scheme": "qjump", "epoch": "100ms", "throughput_factors": [1, 3]}
LINK_BPS = 50_000_000


@pytest.mark.parametrize("host", [V4["b"], V6["b"]], ids=["ipv4", "ipv6"])
@pytest.mark.parametrize(
    ("priority", "level"), [(None, LAST), (0, LAST), (1, 1), (6, 6), (7, 7), (8, LAST), (15, LAST)]
)
def test_tag__of_a_connection_is_the_level_of_its_program(
    pair: Pair, host: str, priority: int | None, level: int
) -> None:
    with Tagger(TagSettings(levels=True)) as tagger, Capture(pair.b, "eth0") as capture:
        with pair.a:
            tagger.attach("eth0")
        with pair.connection(host, "cubic") as (client, server):
            if priority is not None:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)
            send_and_receive(client, server, 100_000)
            close_in_order(client, server)
            packets = [packet for packet in capture.packets() if not packet.flags & SYN]
    data = [packet for packet in packets if packet.data_bytes]
    assert sum(packet.data_bytes for packet in data) >= 100_000
    assert {packet.dscp for packet in data} == {level}
    assert {packet.dscp for packet in packets if packet.flags & FIN} == {level}
    assert all(packet.checksums_ok for packet in packets)


def test_tag__a_program_may_change_its_level_and_acks_have_that_of_the_receiver(pair: Pair) -> None:
    with Tagger(TagSettings(levels=True)) as tagger, ExitStack() as stack:
        for end in (pair.a, pair.b):
            with end:
                tagger.attach("eth0")
        client, server = stack.enter_context(pair.connection(V4["b"], "cubic"))
        server.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 2)
        to_b, to_a = (stack.enter_context(Capture(end, "eth0")) for end in (pair.b, pair.a))
        for level in (3, 1):
            client.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, level)
            send_and_receive(client, server, 50_000)
            assert {packet.dscp for packet in to_b.packets() if packet.data_bytes} == {level}
        assert {packet.dscp for packet in to_a.packets()} == {2}


def datagrams(levels: Sequence[int]) -> list[socket.socket]:
    """Send a datagram that fills a frame at each of these levels, in this order, from a socket for each level."""
    sockets = {level: socket.socket(type=socket.SOCK_DGRAM) for level in dict.fromkeys(levels)}
    for level, sender in sockets.items():
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, level % LAST)
        sender.connect((V4["b"], PORT))
    for level in levels:
        sockets[level].send(bytes(UDP_BYTES))
    return list(sockets.values())


def limits(pair: Pair) -> list[tuple[str, int]]:
    """Return rate, as tc writes it, and burst in bytes of the classes of the levels, level 1 first."""
    shown = pair.a.run("tc", "class", "show", "dev", "eth0")
    of_level = re.findall(r"parent 5c1c:ff prio (\d) .* ceil (\S+) .* cburst (\d+)b", shown)
    return [(ceil, int(burst)) for _, ceil, burst in sorted(of_level)]


def agent(settings: HostSettings) -> tuple[HostLink, HostTagger]:
    """Return link and tagger of an agent with these settings."""
    link = HostLink(["eth0"], LINK_CLASS)
    tagger = HostTagger(["eth0"], link=link)
    link.begin()
    tagger.attach()
    tagger.update(settings)
    return link, tagger


def test_limits__are_the_rates_that_follow_from_the_epoch(shaped: Pair) -> None:
    settings = HostSettings.of(Policy.from_document(LEVELS))
    link, tagger = agent(settings)
    assert (link.name, link.problem) == ("htb", "")
    bits = 8 * FRAME_BYTES * 10  # a second has ten epochs
    (first, one), (second, three), *others = limits(shaped)
    assert (first, second) == (f"{bits}bit", f"{3 * bits}bit")
    # A frame is sent beyond the bucket. The kernel rounds a bucket to its clock's ticks.
    assert one <= 1
    assert three == pytest.approx(2 * FRAME_BYTES, abs=1)
    assert others == [("1Tbit", 0)] * 6
    tagger.update(HostSettings.of(Policy.from_document({"scheme": "pias"})))
    assert limits(shaped) == [("1Tbit", 0)] * 8
    tagger.detach()
    link.end()


def test_limits__hold_back_a_level_and_no_other(shaped: Pair) -> None:
    """Level 1 may send a frame in 100 ms, and level 2 three. What they sent first arrives after what level 8 sends."""
    link, tagger = agent(HostSettings.of(Policy.from_document(LEVELS)))
    order = [1] * 4 + [2] * 7 + [LAST] * 30
    with Capture(shaped.b, "eth0") as capture:
        senders = datagrams(order)

        def arrived() -> list[int]:
            return [packet.dscp for packet in capture.packets() if packet.data_bytes == UDP_BYTES]

        seen = collected(arrived, len(order), "all datagrams")
    for sender in senders:
        sender.close()
    assert sorted(seen) == sorted(order)
    after_last = seen[len(seen) - seen[::-1].index(LAST) :]
    assert after_last.count(1) >= 2, (
        "a frame of level 1 leaves at once; those behind it wait for later epochs"
    )
    assert after_last.count(2) >= 1
    counters = {each.handle: each for each in queue_counters(Kind.CLASSES, socket.if_nametoindex("eth0"))}
    sent = [counters[CLASSES[level - 1]].sent_bytes // FRAME_BYTES for level in (1, 2, LAST)]
    assert sent == [4, 7, 30], "each level's packets went through its own class"
    tagger.detach()
    link.end()


def test_limits__take_the_place_of_a_qdisc_that_cannot_limit(shaped: Pair) -> None:
    if "prio" not in KINDS:
        pytest.skip("HTB is the only kind")
    try:
        make("eth0", LINK_CLASS, ["prio"])
    except EnvironmentLacking as lacking:
        pytest.skip(str(lacking))
    link, tagger = agent(HostSettings.of(Policy.from_document(LEVELS)))
    assert link.name == "htb"
    tagger.detach()
    link.end()


def test_limits__an_agent_without_a_place_says_that_it_cannot_limit(shaped: Pair) -> None:
    link = HostLink(["eth0"], None)
    link.limit((1000,), (FRAME_BYTES,))
    assert "set queues_at" in link.problem
