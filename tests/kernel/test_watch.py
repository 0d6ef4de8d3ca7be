# SPDX-License-Identifier: Apache-2.0
"""bpf/watch.bpf.c on real connections between namespaces."""

import errno
import socket
import struct
import time
from itertools import pairwise

import pytest

from sluice.dataplane.sockopt import Attachment
from sluice.dataplane.watch import Watch
from sluice.runtime.wait import wait_until
from tests.kernel import lab
from tests.kernel.conftest import V4, V6, Pair
from tests.kernel.controls import DEADLINE, declare, fill
from tests.kernel.lab import Namespace, send_and_receive
from tests.kernel.watching import RESET_ON_CLOSE, WatchOf, close_in_order, ended, sockets_closed

TIMEOUTS_BEFORE = 92
"""The place in struct watched of bpf/watch_state.bpf.h."""

ADDRESSES = pytest.mark.parametrize("addresses", [V4, V6], ids=["ipv4", "ipv6"])


def retransmitted(ns: Namespace) -> int:
    """Return how many segments the namespace has retransmitted. A machine that stands still makes TCP send again."""
    return int(ns.run("nstat", "-a", "-s", "-z", "TcpRetransSegs").split()[-2])


@ADDRESSES
def test_a_connection_in_full(pair: Pair, watch: Watch, addresses: dict[str, str]) -> None:
    before_ns = time.monotonic_ns()
    with pair.connection(addresses["b"], "reno") as (near, far):
        connected_ns = time.monotonic_ns()
        before = retransmitted(pair.a)
        send_and_receive(near, far, 400_000)
        send_and_receive(far, near, 1234)
        local, remote = near.getsockname()[:2], near.getpeername()[:2]
        close_in_order(near, far)
        (connection,) = ended(watch)
        after_ns = time.monotonic_ns()
    assert (str(connection.local), connection.local_port) == local == (addresses["a"], local[1])
    assert (str(connection.remote), connection.remote_port) == remote
    assert (connection.sent_bytes, connection.received_bytes, connection.pending_bytes) == (400_000, 1234, 0)
    assert before_ns <= connection.start_ns <= connected_ns
    assert connection.sent_at_ns is not None
    assert connected_ns <= connection.sent_at_ns <= connection.read_ns <= after_ns
    assert connection.retransmissions == retransmitted(pair.a) - before
    assert connection.timeouts in range(connection.retransmissions + 1)
    assert connection.error == 0
    assert connection.congestion_control == "reno"
    assert connection.active
    assert connection.closed
    assert not connection.adopted
    assert connection.srtt_us
    assert 0 < connection.srtt_us < 1_000_000


@ADDRESSES
def test_the_accepting_end(pair: Pair, watch: Watch, addresses: dict[str, str]) -> None:
    """The watched end sends data to the connecting end and closes first."""
    with lab.connected(pair.b, pair.a, addresses["a"]) as (caller, called):
        port = called.getsockname()[1]
        send_and_receive(called, caller, 300_000)
        close_in_order(called, caller)
        (connection,) = ended(watch)
    assert (connection.sent_bytes, connection.received_bytes) == (300_000, 0)
    assert str(connection.local) == addresses["a"]
    assert connection.local_port == port
    assert not connection.active


def test_a_sender_whose_peer_closes_first(pair: Pair, watch: Watch) -> None:
    with pair.connection() as (near, far):
        send_and_receive(near, far, 50_000)
        far.close()
        assert near.recv(1) == b""
        near.close()
        (connection,) = ended(watch)
    assert (connection.sent_bytes, connection.received_bytes) == (50_000, 0)
    assert connection.received_at_ns is not None
    assert connection.sent_at_ns is not None


def test_ipv4_through_an_ipv6_socket_is_ipv4(pair: Pair, watch: Watch) -> None:
    with lab.listen(pair.b, V4["b"]) as listener:
        with pair.a:
            near = socket.socket(socket.AF_INET6)
        near.connect((f"::ffff:{V4['b']}", listener.getsockname()[1]))
        far, _ = listener.accept()
        send_and_receive(near, far, 10)
        close_in_order(near, far)
        (connection,) = ended(watch)
    assert (str(connection.local), str(connection.remote)) == (V4["a"], V4["b"])


def test_the_last_byte_counts_not_the_silence_after_it(pair: Pair, watch: Watch) -> None:
    with pair.connection() as (near, far):
        send_and_receive(near, far, 20_000)
        wait_until(lambda: watch.live()[0].sent_at_ns is not None, "all data is acknowledged")
        said_ns = time.monotonic_ns()
        time.sleep(0.3)  # the test needs real silence
        close_in_order(near, far)
        (connection,) = ended(watch)
    assert connection.sent_at_ns is not None
    assert connection.start_ns < connection.sent_at_ns <= said_ns
    assert connection.read_ns - connection.sent_at_ns >= 300_000_000


def test_another_namespace_is_left_alone(pair: Pair, watch: Watch, namespaces: list[Namespace]) -> None:
    c, d = Namespace(), Namespace()
    namespaces += [c, d]
    lab.connect(c, "eth0", d, "eth0")
    lab.address(c, "eth0", "10.8.0.1/24")
    lab.address(d, "eth0", "10.8.0.2/24")
    with lab.connected(c, d, "10.8.0.2") as (near, far):
        send_and_receive(near, far, 10_000)
        assert not watch.live()
        close_in_order(near, far)
    sockets_closed(c)
    assert not watch.ended()
    assert watch.lost() == 0


def test_two_watches_do_not_disturb_each_other(pair: Pair, watch: Watch) -> None:
    with WatchOf(pair.b) as other, pair.connection() as (near, far):
        send_and_receive(near, far, 10_000)
        close_in_order(near, far)
        (here,), (there,) = ended(watch), ended(other)
    assert here.sent_bytes == there.received_bytes == 10_000
    assert (here.local_port, here.remote_port) == (there.remote_port, there.local_port)
    assert here.active
    assert not there.active


def test_own_port_is_left_out_at_both_ends(pair: Pair) -> None:
    with lab.listen(pair.b, V4["b"]) as listener:
        port = listener.getsockname()[1]
        sending, receiving = WatchOf(pair.a, port), WatchOf(pair.b, port)
        near, far = lab.dial(pair.a, listener)
        send_and_receive(near, far, 10_000)
        assert not sending.live()
        assert not receiving.live()
        close_in_order(near, far)
    sockets_closed(pair.a)
    assert not sending.ended()
    assert not receiving.ended()
    sending.close()
    receiving.close()


def test_refused_or_without_data__no_record(pair: Pair, watch: Watch) -> None:
    with pair.a, socket.socket() as client, pytest.raises(ConnectionRefusedError):
        client.connect((V4["b"], 9))
    with lab.listen(pair.b, V4["b"]) as listener:
        near, far = lab.dial(pair.a, listener)
        close_in_order(near, far)
        near, far = lab.dial(pair.a, listener)
        near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        near.close()
        far.close()
    sockets_closed(pair.a)
    assert not watch.ended()
    assert not watch.live()


def test_reset_by_the_other_end(pair: Pair, watch: Watch) -> None:
    """The receiver closes with unread data. The sender gets a reset, and the watch reports it."""
    with pair.connection() as (near, far):
        near.sendall(bytes(5000))
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        assert far.recv(100)
        far.close()
        (connection,) = ended(watch)
        near.close()
    assert connection.error == errno.ECONNRESET
    assert connection.sent_bytes == 5000
    assert connection.received_at_ns is None
    assert not connection.closed
    assert not watch.ended(), "the program's close() is no second end"


def test_reset_by_the_other_end_before_it_has_acknowledged_the_last_answer(pair: Pair, watch: Watch) -> None:
    """A client that has its answer closes at once. Its kernel delays the acknowledgement, so the reset comes first."""
    with lab.listen(pair.b, V4["b"]) as listener:
        for _ in range(100):  # the acknowledgement of a slow machine may come in time
            near, far = lab.dial(pair.a, listener)
            far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            for _ in range(5):  # so that the client's kernel takes this for a dialogue
                send_and_receive(far, near, 10)
                send_and_receive(near, far, 100)
            far.close()
            (connection,) = ended(watch)
            near.close()
            if connection.pending_bytes:
                break
    assert (connection.error, connection.pending_bytes, connection.all_sent) == (errno.ECONNRESET, 100, True)


def test_aborted_here_with_data_in_flight(pair: Pair, watch: Watch) -> None:
    with pair.connection() as (near, far):
        far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 10_000)
        written = fill(near)
        near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        near.close()
        (connection,) = ended(watch)
        far.close()
    assert connection.sent_at_ns is None
    assert connection.pending_bytes > 0
    assert not connection.all_sent
    assert connection.sent_bytes + connection.pending_bytes == written


def test_half_closed__the_other_direction_continues(pair: Pair, watch: Watch) -> None:
    with pair.connection() as (near, far):
        send_and_receive(near, far, 3000)
        near.shutdown(socket.SHUT_WR)
        assert far.recv(1) == b""
        send_and_receive(far, near, 200_000)
        (living,) = watch.live()
        far.close()
        assert near.recv(1) == b""
        near.close()
        (connection,) = ended(watch)
    assert living.closed
    assert (living.sent_bytes, living.received_bytes) == (3000, 200_000)
    assert (connection.sent_bytes, connection.received_bytes) == (3000, 200_000)
    assert connection.received_at_ns is not None


def run_ss(ns: Namespace) -> int:
    """Return the total retransmissions of the namespace's one connection, from ss (retrans:now/total)."""
    words = ns.run("ss", "-Htin").split()
    return next((int(w.split("/")[1]) for w in words if w.startswith("retrans:")), 0)


def test_retransmissions_and_timeouts_are_counted(pair: Pair, watch: Watch) -> None:
    with pair.connection() as (near, far):
        send_and_receive(near, far, 10_000)
        with lab.refusing_frames(pair.b):
            near.sendall(bytes(5000))
            wait_until(lambda: watch.live()[0].timeouts, "a retransmission timeout")
        lab.receive(far, 5000)
        shown = run_ss(pair.a)
        close_in_order(near, far)
        (connection,) = ended(watch)
    assert connection.sent_bytes == 15_000
    assert connection.timeouts
    assert connection.timeouts >= 1
    assert connection.retransmissions == shown >= 1


def test_timeouts__the_kernel_counts_them_in_16_bits(pair: Pair, watch: Watch) -> None:
    with pair.connection() as (near, _):
        (before,) = watch.live()
        if before.timeouts is None:
            pytest.skip("the kernel counts timeouts since Linux 6.7")
        connections = watch._object.map("connections")
        state = bytearray(connections.lookup(near.fileno()) or b"")
        struct.pack_into("=I", state, TIMEOUTS_BEFORE, 2**16 - 3)
        connections.update(near.fileno(), bytes(state))
        (after,) = watch.live()
    assert after.timeouts == 3


GAP_NS = 400_000_000
PAUSE_S = 0.5


def test_each_answer_to_a_request_is_a_flow(pair: Pair, watch: Watch) -> None:
    sizes = [30_000, 2_000, 70_000]
    watch.set_idle_gap(GAP_NS)
    with lab.connected(pair.b, pair.a, V4["a"]) as (client, server):
        before_ns = time.monotonic_ns()
        for size_bytes in sizes:
            time.sleep(PAUSE_S)
            send_and_receive(client, server, 100)
            send_and_receive(server, client, size_bytes)
        close_in_order(client, server)
        flows = ended(watch, len(sizes))
    assert [(flow.sent_bytes, flow.received_bytes) for flow in flows] == [(size, 100) for size in sizes]
    assert len({flow.cookie for flow in flows}) == 1
    assert [flow.followed for flow in flows] == [True, True, False]
    assert [flow.part for flow in flows] == [False, True, True]
    for flow in flows:
        assert flow.later, "the wait for the request is no part of the flow"
        assert flow.first_sent_ns is not None
        assert flow.last_sent_ns is not None
        assert flow.sent_at_ns is not None
        assert before_ns < flow.first_sent_ns <= flow.last_sent_ns <= flow.sent_at_ns <= flow.read_ns
    starts = [flow.first_sent_ns or 0 for flow in flows]
    assert all(late - early > PAUSE_S * 1e9 for early, late in pairwise(starts))


def test_writes_without_a_pause_are_one_flow(pair: Pair, watch: Watch) -> None:
    with pair.connection() as (near, far):
        for _ in range(20):
            send_and_receive(near, far, 5_000)
        close_in_order(near, far)
        (flow,) = ended(watch)
    assert (flow.sent_bytes, flow.part, flow.followed) == (100_000, False, False)


@pytest.mark.parametrize("waits", [True, False], ids=["acknowledged", "in flight"])
def test_a_declaration_begins_a_flow(pair: Pair, hook: Attachment, watch: Watch, waits: bool) -> None:
    """Also if the data of the flow before it is not acknowledged yet."""
    count, size_bytes = 4, 20_000
    with pair.connection() as (near, far):
        for number in range(count):
            declare(near, DEADLINE, 0, 0, (number + 1) * 10**9, 0, 0, 0, b"")
            if waits:
                send_and_receive(near, far, size_bytes)
            else:
                near.sendall(bytes(size_bytes))
        left = 0 if waits else count * size_bytes
        while left:
            left -= len(far.recv(65_536))
        close_in_order(near, far)
        flows = ended(watch, count)
    assert [flow.sent_bytes for flow in flows] == [size_bytes] * count
    allowed = [(flow.declared_deadline_ns or 0) - (flow.declared_start_ns or 0) for flow in flows]
    assert allowed == [(number + 1) * 10**9 for number in range(count)]
    acked = [flow.sent_at_ns or 0 for flow in flows]
    assert all(acked), "each is known to be acknowledged"
    assert acked == sorted(acked)
    for flow in flows:
        assert (flow.declared_start_ns or 0) <= (flow.first_sent_ns or 0) <= (flow.sent_at_ns or 0)
        assert flow.pending_bytes == 0


def test_a_watch_that_begins_later_sees_the_next_flow_only(pair: Pair, watch: Watch) -> None:
    """As after a restart of the agent: no flow is reported twice, and the later one is complete."""
    with lab.connected(pair.b, pair.a, V4["a"]) as (client, server):
        send_and_receive(server, client, 30_000)
        time.sleep(PAUSE_S)
        (earlier,) = watch.live()
        watch.close()
        with pair.a, Watch() as second:
            send_and_receive(client, server, 100)
            send_and_receive(server, client, 2_000)
            close_in_order(client, server)
            (later,) = ended(second)
    assert (earlier.sent_bytes, later.sent_bytes, later.received_bytes) == (30_000, 2_000, 100)
    assert earlier.cookie == later.cookie
    assert earlier.start_ns < later.start_ns, "so the ids differ"
