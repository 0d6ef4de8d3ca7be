# SPDX-License-Identifier: Apache-2.0
"""The window of a persistent connection after a pause that is longer than its retransmission timeout."""

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from sluice.dataplane.congestion import register_congestion_control
from sluice.dataplane.sockopt import Attachment
from sluice.hostagent.sockets import declare, declared
from sluice.runtime.wait import wait_until
from tests.kernel.capture import Capture
from tests.kernel.conftest import V4, Pair
from tests.kernel.controls import DCTCP, private_build, private_name
from tests.kernel.lab import dial, listen, receive, send_and_receive, tcp_info

RTO_US, SSTHRESH, CWND = 8, 76, 80
"""Places in struct tcp_info."""
ROUTE_SSTHRESH, ROUTE_INITCWND = 5, 14


@dataclass(frozen=True)
class Windows:
    """Of a sender, in packets."""

    cwnd: int
    ssthresh: int


def windows(sender: socket.socket) -> Windows:
    return Windows(tcp_info(sender, CWND), tcp_info(sender, SSTHRESH))


def pause(sender: socket.socket) -> None:
    """Wait for so many timeouts that any window has shrunk to the initial one."""
    time.sleep(8 * tcp_info(sender, RTO_US) / 1e6)


@pytest.fixture
def program() -> str:
    """The tests of what all controls share use this one."""
    return DCTCP


@pytest.fixture
def ends(pair: Pair, program: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection with a low threshold, as after a cut, and a window that has grown beyond it.

    The route says the threshold.
    """
    name = private_name(program)
    pair.a.sysctl("net.ipv4.tcp_no_ssthresh_metrics_save", 0)
    options = ("initcwnd", str(ROUTE_INITCWND), "ssthresh", "lock", str(ROUTE_SSTHRESH), "rto_min", "20ms")
    pair.a.run("ip", "route", "replace", f"{V4['b']}/32", "dev", "eth0", *options)
    pair.a.run("ethtool", "-K", "eth0", "tx", "on", "tso", "on", "gso", "on")
    pair.a.run("ip", "link", "set", "dev", "eth0", "gso_max_segs", "65535")
    with (
        register_congestion_control(name, private_build(program)),
        listen(pair.b, V4["b"], name) as listener,
    ):
        for end in dial(pair.a, listener, name):  # its end lets the kernel read the route's threshold
            end.close()
        wait_until(lambda: "ssthresh" in pair.a.run("ip", "tcp_metrics"), "the threshold")
        client, server = dial(pair.a, listener, name)
        assert windows(client).ssthresh == ROUTE_SSTHRESH
        while windows(client).cwnd < 3 * ROUTE_INITCWND:
            send_and_receive(client, server, 1_000_000)
        yield client, server
        client.close()
        server.close()


@pytest.mark.parametrize("program", [DCTCP, "cc_datcp"])
def test_a_pause_shrinks_the_window_and_ends_a_passed_deadline(
    hook: Attachment, ends: tuple[socket.socket, socket.socket]
) -> None:
    """RFC 2861. The window shrinks to the one of the route, and three quarters of it become the threshold.

    DATCP has a program of its own. All other controls share one.
    """
    client, server = ends
    before = windows(client)
    pause(client)
    send_and_receive(client, server, 1)
    assert windows(client) == Windows(ROUTE_INITCWND, before.cwnd // 2 + before.cwnd // 4)
    declare(client, size_bytes=10**6, deadline_s=0.001)
    send_and_receive(client, server, 1000)
    assert declared(client).deadline_s is not None
    pause(client)
    send_and_receive(client, server, 1)
    assert declared(client).deadline_s is None


def test_the_first_packets_after_a_pause_fit_the_smaller_window(
    pair: Pair, ends: tuple[socket.socket, socket.socket]
) -> None:
    """With segmentation offload, the first of them may be as large as the window."""
    client, server = ends
    mss_bytes = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
    pause(client)
    with Capture(pair.b, "eth0") as capture:
        client.setblocking(True)
        send_and_receive(client, server, 3 * ROUTE_INITCWND * mss_bytes)
        first = next(p for p in capture.packets() if p.data_bytes)
    assert mss_bytes < first.data_bytes <= ROUTE_INITCWND * mss_bytes


def test_a_blocked_sender_shrinks_its_window_once(ends: tuple[socket.socket, socket.socket]) -> None:
    """TCP_CORK: each write asks whether a packet may leave, and none does."""
    client, server = ends
    pause(client)
    before = windows(client)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    for _ in range(5):
        client.send(b"x")
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
    receive(server, 5)
    assert windows(client) == Windows(ROUTE_INITCWND, before.cwnd // 2 + before.cwnd // 4)


def test_without_slow_start_after_idle_a_pause_changes_nothing(
    pair: Pair, ends: tuple[socket.socket, socket.socket]
) -> None:
    pair.a.sysctl("net.ipv4.tcp_slow_start_after_idle", 0)
    client, server = ends
    before = windows(client)
    pause(client)
    send_and_receive(client, server, 1)
    assert windows(client) == before
