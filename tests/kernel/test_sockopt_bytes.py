# SPDX-License-Identifier: Apache-2.0
"""Which bytes of a connection the setsockopt hook counts for a flow."""

import contextlib
import errno
import socket
import struct
from functools import partial

import pytest

from sluice.dataplane.loader import load
from sluice.dataplane.sockopt import (
    SLUICE_STATE,
    SOL_SLUICE,
    STATE_BYTES,
    Attachment,
)
from sluice.runtime.wait import wait_until
from tests.kernel.conftest import FAMILIES, V4, Pair
from tests.kernel.controls import FULL, acked_bytes, declare, declare_size, fill, has_acked, tcp_state
from tests.kernel.lab import listen, send_and_receive

TCP_SYN_SENT, TCP_FIN_WAIT2, TCP_CLOSE = 2, 5, 7
TCP_FASTOPEN_CONNECT = 30


# -- which bytes belong to a flow


def test_acked_bytes__of_both_ends_exactly(ends: list[socket.socket]) -> None:
    for one, other in (ends, ends[::-1]):
        declare_size(one, 300_000)
        assert acked_bytes(one) == 0
        send_and_receive(one, other, 300_000)
        wait_until(partial(has_acked, one, 300_000), "exactly the sent bytes are acknowledged")


def test_acked_bytes__restart_with_each_flow_of_a_connection(ends: list[socket.socket]) -> None:
    sender, receiver = ends
    for size_bytes in (1, 70_000, 1448, 2):
        declare_size(sender, size_bytes)
        assert acked_bytes(sender) == 0
        send_and_receive(sender, receiver, size_bytes)
        wait_until(partial(has_acked, sender, size_bytes), f"{size_bytes} bytes are acknowledged")


def test_acked_bytes__a_flow_begins_after_waiting_data(ends: list[socket.socket]) -> None:
    sender, receiver = ends
    waiting = fill(sender)
    sender.setblocking(False)
    declare_size(sender, 1000)
    assert acked_bytes(sender) == 0
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
    received = 0
    pending = bytes(1000)
    while received < waiting + 1000:
        assert acked_bytes(sender) <= max(0, received + (1 << 20) - waiting)
        if pending and received:
            with contextlib.suppress(BlockingIOError):
                pending = pending[sender.send(pending) :]
        received += len(receiver.recv(1 << 20))
    wait_until(lambda: acked_bytes(sender) == 1000, "only the bytes of the second flow are acknowledged")


def test_acked_bytes__without_the_fin(ends: list[socket.socket]) -> None:
    sender, receiver = ends
    declare_size(sender, 5000)
    send_and_receive(sender, receiver, 5000)
    sender.shutdown(socket.SHUT_WR)
    assert receiver.recv(1) == b""
    wait_until(lambda: tcp_state(sender) == TCP_FIN_WAIT2, "the FIN is acknowledged")
    assert acked_bytes(sender) == 5000
    receiver.close()
    wait_until(lambda: tcp_state(sender) == TCP_CLOSE, "the other FIN arrives")
    assert acked_bytes(sender) == 5000


def test_acked_bytes__after_a_reset(ends: list[socket.socket]) -> None:
    sender, receiver = ends
    declare_size(sender, 5000)
    send_and_receive(sender, receiver, 5000)
    wait_until(lambda: acked_bytes(sender) == 5000, "all bytes are acknowledged")
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
    receiver.close()
    wait_until(lambda: tcp_state(sender) == TCP_CLOSE, "the reset")
    assert acked_bytes(sender) == 5000


@pytest.mark.parametrize("family", FAMILIES, ids=["ipv4", "ipv6"])
def test_declared_before_connect__the_flow_begins_with_the_connection(
    hook: Attachment, pair: Pair, family: socket.AddressFamily
) -> None:
    with listen(pair.b, FAMILIES[family]["b"]) as listener:
        with pair.a:
            sender = socket.socket(family, socket.SOCK_STREAM)
        with sender:
            declare_size(sender, 4000)
            assert acked_bytes(sender) == 0
            sender.connect(listener.getsockname()[:2])
            receiver, _ = listener.accept()
            assert acked_bytes(sender) == 0
            send_and_receive(sender, receiver, 4000)
            wait_until(lambda: acked_bytes(sender) == 4000, "exactly the sent bytes are acknowledged")
            receiver.close()


def test_declared_while_connecting(hook: Attachment, pair: Pair) -> None:
    """No host has the address yet, so no host can have answered the SYN."""
    with listen(pair.b, "0.0.0.0") as listener:
        with pair.a:
            sender = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        with sender:
            sender.setblocking(False)
            assert sender.connect_ex(("10.9.0.77", listener.getsockname()[1])) == errno.EINPROGRESS
            declare_size(sender, 4000)
            assert tcp_state(sender) == TCP_SYN_SENT
            pair.b.run("ip", "addr", "add", "10.9.0.77/24", "dev", "eth0")
            receiver, _ = listener.accept()
            assert acked_bytes(sender) == 0
            send_and_receive(sender, receiver, 4000)
            wait_until(lambda: acked_bytes(sender) == 4000, "exactly the sent bytes are acknowledged")
            receiver.close()


def test_declared_while_fast_open_delays_the_syn(hook: Attachment, pair: Pair) -> None:
    with listen(pair.b, V4["b"]) as listener:
        with pair.a:
            sender = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        with sender:
            sender.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
            sender.connect(listener.getsockname())
            declare_size(sender, 4000)
            assert sender.send(bytes(4000)) == 4000
            receiver, _ = listener.accept()
            wait_until(lambda: acked_bytes(sender) == 4000, "exactly the sent bytes are acknowledged")
            receiver.close()


# -- the congestion control, and its readings


def test_state__is_the_controls_and_restarts_with_a_flow(sock: socket.socket) -> None:
    with load("sockopt") as same:
        flows = same.map("sluice_flow_2")
        declare(sock, *FULL)
        written = bytes(range(1, STATE_BYTES + 1))
        value = flows.lookup(sock.fileno())
        assert value is not None
        told_bytes = 48
        flows.update(
            sock.fileno(), value[:told_bytes] + written + b"\1" * (len(value) - told_bytes - STATE_BYTES)
        )
        read = sock.getsockopt(SOL_SLUICE, SLUICE_STATE, STATE_BYTES)
        assert read == written[:8] + bytes(8) + written[16:], "everything except the counted bytes"
        declare(sock, *FULL)
        assert sock.getsockopt(SOL_SLUICE, SLUICE_STATE, STATE_BYTES) == bytes(STATE_BYTES)
        assert (flows.lookup(sock.fileno()) or b"")[told_bytes:] == bytes(len(value) - told_bytes)
