# SPDX-License-Identifier: Apache-2.0
"""A watch on many connections, on earlier ones, and when it comes and goes."""

import ctypes
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from sluice.dataplane.congestion import register_congestion_control
from sluice.dataplane.sockopt import Attachment
from sluice.dataplane.tagger import Tagger
from sluice.dataplane.watch import Watch
from sluice.dataplane.windows import WindowLog
from sluice.hostagent import sockets
from tests.kernel.conftest import V4, Pair
from tests.kernel.controls import DEADLINE, declare, private_build, private_name
from tests.kernel.lab import dial, listen, receive, send_and_receive
from tests.kernel.objects import leaves_nothing, programs_of, wait_freed
from tests.kernel.watching import RESET_ON_CLOSE, WatchOf, close_in_order, ended, wait_acknowledged


def test_many_short_connections__none_is_missed(pair: Pair, watch: Watch) -> None:
    count = 500
    with listen(pair.b, V4["b"]) as listener:
        listener.listen(256)
        for i in range(count):
            near, far = dial(pair.a, listener)
            near.sendall(bytes(1 + i))
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            left = 1 + i
            while left:
                left -= len(far.recv(65_536))
            wait_acknowledged(near)
            near.close()
            far.close()
    found = ended(watch, count)
    assert sorted(c.sent_bytes for c in found) == list(range(1, count + 1))
    assert len({c.cookie for c in found}) == count
    assert watch.lost() == 0


def test_flows_that_are_acknowledged_together__are_reported_in_order(
    pair: Pair, hook: Attachment, watch: Watch
) -> None:
    """One segment carries two flows. No packet follows its acknowledgement before the next write."""
    sizes = [1000, 200, 3000]
    with pair.connection() as (near, far):
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        for size_bytes in sizes:
            if size_bytes == sizes[-1]:
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
                receive(far, sum(sizes[:-1]))
                wait_acknowledged(near)
            declare(near, DEADLINE, 0, 0, 10**9, 0, 0, 0, b"")
            near.sendall(bytes(size_bytes))
        receive(far, sizes[-1])
        close_in_order(near, far)
        flows = ended(watch, len(sizes))
    assert [flow.sent_bytes for flow in flows] == sizes


def test_losses_of_a_full_ring_are_counted(pair: Pair, watch: Watch) -> None:
    """The ring holds about 6,500 records."""
    count = 8000
    with listen(pair.b, V4["b"]) as listener:
        listener.listen(256)
        for _ in range(count):
            near, far = dial(pair.a, listener)
            near.sendall(b"x")
            assert far.recv(1)
            wait_acknowledged(near)
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            near.close()
            far.close()
    assert 0 < watch.lost() == count - len(watch.ended())


def test_earlier_connections_are_adopted(pair: Pair) -> None:
    with pair.connection() as (near, far):
        send_and_receive(near, far, 70_000)
        send_and_receive(far, near, 500)
        with WatchOf(pair.a) as watch:
            (living,) = watch.live()
            assert living.adopted
            assert (living.sent_bytes, living.received_bytes) == (0, 0)
            send_and_receive(near, far, 8000)
            close_in_order(near, far)
            (connection,) = ended(watch)
    assert connection.adopted
    assert connection.cookie == living.cookie
    assert (connection.sent_bytes, connection.received_bytes) == (8000, 0)


def test_a_socket_that_connects_again_is_another_connection(pair: Pair, watch: Watch) -> None:
    with listen(pair.b, V4["b"]) as listener:
        near, far = dial(pair.a, listener)
        send_and_receive(near, far, 1000)
        disconnect(near)
        far.close()
        near.connect(listener.getsockname())
        again, _ = listener.accept()
        send_and_receive(near, again, 2000)
        close_in_order(near, again)
        first, second = ended(watch, 2)
    assert (first.sent_bytes, second.sent_bytes) == (1000, 2000)
    assert first.cookie == second.cookie
    assert first.start_ns < second.start_ns


def disconnect(sock: socket.socket) -> None:
    """Call connect() with AF_UNSPEC, which Python's socket module lacks."""
    sock.setblocking(True)
    nowhere = ctypes.create_string_buffer(16)
    assert ctypes.CDLL(None).connect(sock.fileno(), nowhere, 16) == 0


def test_attached_and_detached_many_times__nothing_is_left(pair: Pair) -> None:
    with pair.connection() as (near, far):

        @contextmanager
        def used() -> Iterator[None]:
            with WatchOf(pair.a) as watch:
                send_and_receive(near, far, 100)
                assert watch.live()
                yield
                watch.close()
            with pytest.raises(ValueError, match="closed"):
                watch.live()

        leaves_nothing(used)
        close_in_order(near, far)


def test_a_killed_process_leaves_nothing(pair: Pair) -> None:
    code = (
        "import sys, dataplane.watch as w; x = w.Watch(); print(len(x.live()), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        programs = programs_of(process.pid)
        assert programs
        process.kill()
    wait_freed(programs)


# -- beside all other storage that this project keeps in a socket


OPTMEM = Path("/proc/sys/net/core/optmem_max")
"""Of each network namespace since Linux 6.8. Before, the machine has one, and this is its default."""
OPTMEM_BEFORE_LINUX_6_8 = 20_480


def test_all_storage_fits_a_socket_of_an_older_kernel(pair: Pair, hook: Attachment, watch: Watch) -> None:
    """Declared flows that wait for acknowledgements are there, too."""
    name = private_name()
    with (
        register_congestion_control(name, private_build()),
        WindowLog() as log,
        Tagger() as tagger,
        listen(pair.b, V4["b"], name) as listener,
    ):
        with pair.a:
            tagger.attach("eth0")
            if OPTMEM.exists():
                OPTMEM.write_text(str(OPTMEM_BEFORE_LINUX_6_8))
        client, server = dial(pair.a, listener, name)
        client.setblocking(False)
        for _ in range(3):
            sockets.declare(client, size_bytes=1_000_000)
            client.send(bytes(20_000))
        log.follow(client)
        while log.read(client) == []:
            with suppress(BlockingIOError):  # more, because all before may be acknowledged already
                client.send(bytes(20_000))
            assert server.recv(1 << 16)
        client.close()
        server.close()
