# SPDX-License-Identifier: Apache-2.0
"""bpf/socket_tag.bpf.h: sockets that carry their tags themselves, where no tagger sees their packets."""

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from sluice.dataplane.congestion import (
    DEFAULT_CONTROL,
    NO_TAGS,
    ControlSettings,
    HostEntry,
    register_congestion_control,
)
from sluice.dataplane.sockopt import Attachment
from sluice.dataplane.tagger import TagSettings
from sluice.policy.tags import ATTAINED_FIRST, attained_tag
from tests.kernel.capture import FIN, SYN, Capture, Packet
from tests.kernel.conftest import V4, V6, Pair
from tests.kernel.controls import private_build, private_name
from tests.kernel.lab import receive, send_and_receive

LONG_GAP_NS = 60_000_000_000
SIZE_BYTES = 400_000
FORMER = "reno"
"""The control of hosts before ours."""


@dataclass(frozen=True)
class Host:
    """A host whose agent has a policy in force."""

    pair: Pair
    entries: HostEntry
    control: str

    def says(self, tags: TagSettings, namespaces_control: str) -> None:
        """Let the policy act in both namespaces, whose default control this is."""
        settings = ControlSettings(control=self.control, without_ecn=FORMER, tags=tags)
        for place in (self.pair.a, self.pair.b):
            place.sysctl("net.ipv4.tcp_congestion_control", namespaces_control)
            with place:
                self.entries.set(settings)


@pytest.fixture
def host(hook: Attachment, pair: Pair, entries: HostEntry) -> Iterator[Host]:
    program = "cc_dctcp"
    with register_congestion_control(private_name(program), private_build(program)):
        yield Host(pair, entries, private_name(program))


def offsets(packets: list[Packet]) -> list[tuple[int, int]]:
    """Return the first byte and the DSCP of each packet with data, in order."""
    data = [packet for packet in packets if packet.data_bytes]
    return [((packet.seq - data[0].seq) % 2**32, packet.dscp) for packet in data]


@pytest.mark.parametrize(("address", "is_default"), [(V4["b"], True), (V6["b"], False)])
def test_no_packet_promises_more_than_its_place_in_the_flow(
    host: Host, address: str, is_default: bool
) -> None:
    """Otherwise the controller would demote the host. Also in a namespace with the control from before the policy."""
    host.says(TagSettings(LONG_GAP_NS), host.control if is_default else FORMER)
    with Capture(host.pair.b, "eth0") as capture, host.pair.connection(address) as (client, server):
        control = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
        assert control == host.control
        send_and_receive(client, server, SIZE_BYTES)
        client.shutdown(socket.SHUT_WR)
        assert not server.recv(1)
        server.close()
        sent = capture.packets()
    assert {packet.dscp for packet in sent if packet.flags & SYN} == {ATTAINED_FIRST}
    data = offsets(sent)
    early = [byte for byte, dscp in data if not attained_tag(byte) <= dscp <= attained_tag(SIZE_BYTES)]
    assert early == [], "the tag says that the flow has sent less than it had"
    assert data[0][1] < data[-1][1]
    (last,) = {packet.dscp for packet in sent if packet.flags & FIN}
    assert last >= data[-1][1]


def test_a_message_after_the_idle_gap_begins_at_tag_1(host: Host) -> None:
    gap_ns = 1_000_000
    with contextlib.ExitStack() as stack:
        host.says(TagSettings(LONG_GAP_NS), host.control)
        capture = stack.enter_context(Capture(host.pair.b, "eth0"))
        client, server = stack.enter_context(host.pair.connection())
        send_and_receive(client, server, SIZE_BYTES)
        host.says(TagSettings(gap_ns), host.control)
        seen = len(capture.packets())
        assert seen
        for _ in range(20):
            client.sendall(b"x")
            assert server.recv(1)
        late = offsets(capture.packets())
    assert ATTAINED_FIRST in {dscp for _, dscp in late}


def test_the_idle_half_of_a_connection_ends_without_a_tag(host: Host) -> None:
    """Switches count tagged FINs as flows that have ended."""
    host.says(TagSettings(LONG_GAP_NS), host.control)
    with Capture(host.pair.b, "eth0") as capture, host.pair.connection() as (client, server):
        server.sendall(b"x" * 1000)
        receive(client, 1000)
        client.close()
        assert not server.recv(1)
        found = capture.packets()
    (end,) = (packet for packet in found if packet.flags & FIN)
    assert end.dscp == 0
    assert {packet.dscp for packet in found if packet.flags & SYN} == {ATTAINED_FIRST}


def test_a_reserved_dscp_stays_and_no_tag_has_it(host: Host) -> None:
    host.says(TagSettings(LONG_GAP_NS, reserved_dscp=(1, 46)), host.control)
    with Capture(host.pair.b, "eth0") as capture, host.pair.connection() as (client, server):
        client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 46 << 2)
        send_and_receive(client, server, SIZE_BYTES)
        found = capture.packets()
    assert {packet.dscp for packet in found if packet.flags & SYN} == {2}
    assert {dscp for _, dscp in offsets(found)} == {46}


@pytest.mark.parametrize("why", ["the other end refuses ECN", "its program selects another"])
def test_a_connection_with_another_control_has_no_tag(host: Host, why: str) -> None:
    """It would keep the first one for ever."""
    host.says(TagSettings(LONG_GAP_NS), host.control)
    option = socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno"
    with Capture(host.pair.b, "eth0") as capture:
        if why == "the other end refuses ECN":
            host.pair.b.sysctl("net.ipv4.tcp_ecn", 0)
            host.pair.b.sysctl("net.ipv4.tcp_congestion_control", "reno")
            with host.pair.b:
                host.entries.set(DEFAULT_CONTROL)
        with host.pair.connection() as (client, server):
            if why == "its program selects another":
                client.setsockopt(*option)
            send_and_receive(client, server, SIZE_BYTES)
            found = capture.packets()
    assert {dscp for _, dscp in offsets(found)} == {0}


@pytest.mark.parametrize("dscp", [0, 46])
def test_after_the_policy_a_connection_has_no_tag(host: Host, dscp: int) -> None:
    """And before it, a program's DSCP stays."""
    host.says(NO_TAGS, host.control)
    with Capture(host.pair.b, "eth0") as capture, host.pair.connection() as (client, server):
        client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
        send_and_receive(client, server, SIZE_BYTES)
        assert {found for _, found in offsets(capture.packets())} == {dscp}
        host.says(TagSettings(LONG_GAP_NS), host.control)
        send_and_receive(client, server, SIZE_BYTES)
        assert offsets(capture.packets())[-1][1] > ATTAINED_FIRST
        host.says(NO_TAGS, host.control)
        send_and_receive(client, server, SIZE_BYTES)
        assert {found for _, found in offsets(capture.packets())} == {0}
