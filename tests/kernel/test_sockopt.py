# SPDX-License-Identifier: Apache-2.0
"""The setsockopt hook on real sockets follows include/sluice.h in every byte and errno."""

import contextlib
import ctypes
import errno
import os
import socket
import struct
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from sluice.dataplane.loader import load
from sluice.dataplane.sockopt import SLUICE_FLOW, SLUICE_STATE, SOL_SLUICE, STATE_BYTES, Attachment
from sluice.runtime.wait import wait_until
from tests.kernel import controls
from tests.kernel.conftest import FAMILIES, V4, Pair
from tests.kernel.controls import FULL, SIZE, acked_bytes, declare, declared, refusal
from tests.kernel.lab import listen, send_and_receive

NOBODY = 65534


# -- a declaration comes back


def test_flow__every_field_comes_back(sock: socket.socket) -> None:
    before_ns = time.monotonic_ns()
    declare(sock, *FULL)
    fields, quench, size, deadline_ns, elapsed_ns, importance, share, name = declared(sock)
    took_ns = time.monotonic_ns() - before_ns
    assert (fields, quench, size, importance, share) == (FULL[0] | controls.CONTROL, 2, 200_000, 2500, 250)
    assert FULL[3] - took_ns <= deadline_ns <= FULL[3]
    assert FULL[4] <= elapsed_ns <= FULL[4] + took_ns
    assert name.rstrip(b"\0") == controls.control(sock)


LIMITS: tuple[tuple[int | bytes, ...], ...] = (
    (SIZE, 0, 1, 0, 0, 0, 0, b""),
    (SIZE, 0, 2**64 - 1, 0, 0, 0, 0, b""),
    (controls.IMPORTANCE, 0, 0, 0, 0, 1, 0, b""),
    (controls.IMPORTANCE, 0, 0, 0, 0, 8000, 1000, b""),
    (controls.QUENCH, 0, 0, 0, 0, 0, 0, b""),
    (0, 0, 0, 0, 0, 0, 0, b""),
)


def test_flow__the_limits_of_each_field(sock: socket.socket) -> None:
    """Only the new flow comes back, without fields of the last one."""
    for values in LIMITS:
        declare(sock, *FULL)
        declare(sock, *values)
        fields, *others, name = declared(sock)
        assert (fields, *others) == (int(values[0]) | controls.CONTROL, *values[1:-1])
        assert name.rstrip(b"\0") == controls.control(sock)


def test_flow__the_deadline_counts_down_and_passes(sock: socket.socket) -> None:
    declare(sock, controls.DEADLINE, 0, 0, 1, 0, 0, 0, b"")
    assert declared(sock)[3] < 0
    declare(sock, controls.DEADLINE, 0, 0, 2**63 - 1, 0, 0, 0, b"")
    assert 2**63 - 1 - 10**10 < declared(sock)[3] < 2**63 - 1


def test_flow__of_a_socket_without_a_declaration(sock: socket.socket) -> None:
    assert declared(sock) == (controls.CONTROL, 0, 0, 0, 0, 0, 0, controls.control(sock).ljust(16, b"\0"))
    assert sock.getsockopt(SOL_SLUICE, SLUICE_STATE, STATE_BYTES) == bytes(STATE_BYTES)


def test_flow__selects_the_control(sock: socket.socket) -> None:
    for name in (b"reno", b"cubic", b"reno"):
        declare(sock, controls.CONTROL, 0, 0, 0, 0, 0, 0, name)
        assert controls.control(sock) == name
    declare(sock, *FULL)
    assert controls.control(sock) == b"reno", "the control stays until another one is declared"


def test_get__a_larger_buffer_is_filled_in_part(sock: socket.socket) -> None:
    assert len(sock.getsockopt(SOL_SLUICE, SLUICE_FLOW, 200)) == controls.FLOW.size
    assert len(sock.getsockopt(SOL_SLUICE, SLUICE_STATE, 200)) == controls.STATE.size == STATE_BYTES


# -- refusals, which change nothing

WRONG = {
    "a field without a name": (0x20, 0, 0, 0, 0, 0, 0, b""),
    "size 0": (SIZE, 0, 0, 0, 0, 0, 0, b""),
    "a size that is not declared": (0, 0, 1, 0, 0, 0, 0, b""),
    "a deadline now": (controls.DEADLINE, 0, 0, 0, 0, 0, 0, b""),
    "a deadline in the past": (controls.DEADLINE, 0, 0, -1, 0, 0, 0, b""),
    "a deadline that is not declared": (0, 0, 0, 1, 0, 0, 0, b""),
    "elapsed without a deadline": (0, 0, 0, 0, 1, 0, 0, b""),
    "a start before the boot": (controls.DEADLINE, 0, 0, 1, 2**63, 0, 0, b""),
    "importance 0": (controls.IMPORTANCE, 0, 0, 0, 0, 0, 0, b""),
    "importance above 8": (controls.IMPORTANCE, 0, 0, 0, 0, 8001, 0, b""),
    "a share above 1": (controls.IMPORTANCE, 0, 0, 0, 0, 1000, 1001, b""),
    "an importance that is not declared": (0, 0, 0, 0, 0, 1, 0, b""),
    "a share without importance": (0, 0, 0, 0, 0, 0, 1, b""),
    "an unknown quench": (controls.QUENCH, 3, 0, 0, 0, 0, 0, b""),
    "a quench that is not declared": (0, 1, 0, 0, 0, 0, 0, b""),
    "an unknown control": (controls.CONTROL, 0, 0, 0, 0, 0, 0, b"sluice_nothing"),
    "no control": (controls.CONTROL, 0, 0, 0, 0, 0, 0, b""),
    "a control without end": (controls.CONTROL, 0, 0, 0, 0, 0, 0, b"sluice_endlessly"),
    "a control that is not declared": (0, 0, 0, 0, 0, 0, 0, b"reno"),
    "a good control with a wrong size": (controls.CONTROL | SIZE, 0, 0, 0, 0, 0, 0, b"reno"),
}


def test_refused__einval_and_the_socket_is_unchanged(ends: list[socket.socket]) -> None:
    sender, receiver = ends
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    declare(sender, *FULL)
    send_and_receive(sender, receiver, 5000)
    wait_until(lambda: acked_bytes(sender) == 5000, "all bytes are acknowledged")
    for what, values in WRONG.items():
        before = declared(sender)
        assert refusal(partial(declare, sender, *values)) == errno.EINVAL, what
        after = declared(sender)
        assert after[:3] + after[5:] == before[:3] + before[5:], what
        assert after[3] - before[3] == before[4] - after[4] <= 0, "the same deadline, the same start"
        assert (acked_bytes(sender), controls.control(sender)) == (5000, b"cubic"), what


def test_refused__another_length_less_room_and_unknown_options(sock: socket.socket) -> None:
    for size_bytes in (0, 4, controls.FLOW.size - 1, controls.FLOW.size + 1, 10_000):
        arguments = (SOL_SLUICE, SLUICE_FLOW, bytes(size_bytes))
        assert refusal(partial(sock.setsockopt, *arguments)) == errno.EINVAL
    assert declared(sock)[0] == controls.CONTROL
    for option, size_bytes in ((SLUICE_FLOW, controls.FLOW.size), (SLUICE_STATE, controls.STATE.size)):
        for room in (1, size_bytes - 1):
            assert refusal(partial(sock.getsockopt, SOL_SLUICE, option, room)) == errno.EINVAL
    for option in (SLUICE_STATE, 0, 3):
        arguments = (SOL_SLUICE, option, bytes(controls.FLOW.size))
        assert refusal(partial(sock.setsockopt, *arguments)) == errno.ENOPROTOOPT
    assert refusal(lambda: sock.getsockopt(SOL_SLUICE, 3, controls.FLOW.size)) == errno.ENOPROTOOPT


@pytest.mark.parametrize(
    "kind",
    [
        (socket.AF_INET, socket.SOCK_DGRAM, 0),
        (socket.AF_INET6, socket.SOCK_DGRAM, 0),
        (socket.AF_UNIX, socket.SOCK_STREAM, 0),
        (socket.AF_NETLINK, socket.SOCK_RAW, 0),
        (socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP),
    ],
    ids=["udp", "udp6", "unix", "netlink", "raw"],
)
def test_refused__not_a_tcp_socket(hook: Attachment, kind: tuple[int, int, int]) -> None:
    with socket.socket(*kind) as other:
        assert refusal(lambda: declare(other, *FULL)) == errno.EOPNOTSUPP
        assert refusal(lambda: declared(other)) == errno.EOPNOTSUPP


def test_refused__a_listener(hook: Attachment, pair: Pair) -> None:
    with listen(pair.b, "::") as listener:
        assert refusal(lambda: declare(listener, *FULL)) == errno.EOPNOTSUPP
        assert refusal(lambda: acked_bytes(listener)) == errno.EOPNOTSUPP


# -- unprivileged programs

BY_NOBODY = """
import socket, struct, sys
flow = struct.Struct("=IIQqQII16s")
sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
own = sock.getsockopt(6, 13, 16)
def attempt(level, option, value):
    try:
        sock.setsockopt(level, option, value)
    except OSError as error:
        return error.errno or 0
    return 0
def select(name):
    return attempt(0x5C1C, 1, flow.pack(16, 0, 0, 0, 0, 0, 0, name)), attempt(6, 13, name)
print(attempt(0x5C1C, 1, flow.pack(3, 0, 1000, 10**9, 0, 0, 0, b"")), flow.unpack(sock.getsockopt(0x5C1C, 1, 56))[2])
print(*select(own.rstrip(b"\\0")), *select(b"cubic"), *select(b"sluice_nothing"))
"""


def test_unprivileged__declares_and_reads_but_gets_no_restricted_control(
    hook: Attachment, pair: Pair
) -> None:
    allowed = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().split()
    with pair.a:
        done = subprocess.run(
            ["/usr/bin/python3", "-c", BY_NOBODY],
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "0 1000"
    cubic = 0 if "cubic" in allowed else errno.EPERM
    assert second.split() == [str(n) for n in (0, 0, cubic, cubic, errno.EINVAL, errno.ENOENT)]


# -- other options


def test_other_options__are_unchanged(ends: list[socket.socket]) -> None:
    sender = ends[0]
    for level, option, value in (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77),
    ):
        sender.setsockopt(level, option, value)
        assert sender.getsockopt(level, option) == value
    assert len(sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)) == 104
    assert refusal(lambda: sender.setsockopt(socket.SOL_SOCKET, 9999, 1)) == errno.ENOPROTOOPT
    assert (
        refusal(lambda: sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"none")) == errno.ENOENT
    )


def test_other_options__values_larger_than_the_kernel_shows_to_programs(ends: list[socket.socket]) -> None:
    sender = ends[0]
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, struct.pack("=i", 88).ljust(20_000, b"\0"))
    assert sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 88
    info = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1000)
    room, length = ctypes.create_string_buffer(65536), ctypes.c_int(65536)  # Python passes at most 1024 bytes
    libc = ctypes.CDLL(None, use_errno=True)
    option = (socket.IPPROTO_TCP, socket.TCP_INFO, room, ctypes.byref(length))
    assert libc.getsockopt(sender.fileno(), *option) == 0, os.strerror(ctypes.get_errno())
    assert length.value == len(info)
    assert room.raw[0] == info[0]


TCP_SYN_SENT, TCP_FIN_WAIT2, TCP_CLOSE = 2, 5, 7
TCP_FASTOPEN_CONNECT = 30


# -- which bytes belong to a flow


def test_acked_bytes__of_both_ends_exactly(ends: list[socket.socket]) -> None:
    for one, other in (ends, ends[::-1]):
        controls.declare_size(one, 300_000)
        assert acked_bytes(one) == 0
        send_and_receive(one, other, 300_000)
        wait_until(partial(controls.has_acked, one, 300_000), "exactly the sent bytes are acknowledged")


def test_acked_bytes__restart_with_each_flow_of_a_connection(ends: list[socket.socket]) -> None:
    sender, receiver = ends
    for size_bytes in (1, 70_000, 1448, 2):
        controls.declare_size(sender, size_bytes)
        assert acked_bytes(sender) == 0
        send_and_receive(sender, receiver, size_bytes)
        wait_until(partial(controls.has_acked, sender, size_bytes), f"{size_bytes} bytes are acknowledged")


def test_acked_bytes__a_flow_begins_after_waiting_data(ends: list[socket.socket]) -> None:
    sender, receiver = ends
    waiting = controls.fill(sender)
    sender.setblocking(False)
    controls.declare_size(sender, 1000)
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
    controls.declare_size(sender, 5000)
    send_and_receive(sender, receiver, 5000)
    sender.shutdown(socket.SHUT_WR)
    assert receiver.recv(1) == b""
    wait_until(lambda: controls.tcp_state(sender) == TCP_FIN_WAIT2, "the FIN is acknowledged")
    assert acked_bytes(sender) == 5000
    receiver.close()
    wait_until(lambda: controls.tcp_state(sender) == TCP_CLOSE, "the other FIN arrives")
    assert acked_bytes(sender) == 5000


def test_acked_bytes__after_a_reset(ends: list[socket.socket]) -> None:
    sender, receiver = ends
    controls.declare_size(sender, 5000)
    send_and_receive(sender, receiver, 5000)
    wait_until(lambda: acked_bytes(sender) == 5000, "all bytes are acknowledged")
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
    receiver.close()
    wait_until(lambda: controls.tcp_state(sender) == TCP_CLOSE, "the reset")
    assert acked_bytes(sender) == 5000


@pytest.mark.parametrize("family", FAMILIES, ids=["ipv4", "ipv6"])
def test_declared_before_connect__the_flow_begins_with_the_connection(
    hook: Attachment, pair: Pair, family: socket.AddressFamily
) -> None:
    with listen(pair.b, FAMILIES[family]["b"]) as listener:
        with pair.a:
            sender = socket.socket(family, socket.SOCK_STREAM)
        with sender:
            controls.declare_size(sender, 4000)
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
            controls.declare_size(sender, 4000)
            assert controls.tcp_state(sender) == TCP_SYN_SENT
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
            controls.declare_size(sender, 4000)
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
