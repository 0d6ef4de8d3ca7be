# SPDX-License-Identifier: Apache-2.0
"""The flows of one connection, as bpf/watch.bpf.c sees them at the end that sends."""

import time
from itertools import pairwise

import pytest

from sluice.dataplane.sockopt import Attachment
from sluice.dataplane.watch import Watch
from tests.kernel.conftest import V4, Pair
from tests.kernel.controls import DEADLINE, declare
from tests.kernel.lab import connected, send_and_receive
from tests.kernel.watching import close_in_order, ended

GAP_NS = 400_000_000
PAUSE_S = 0.5


def test_each_answer_to_a_request_is_a_flow(pair: Pair, watch: Watch) -> None:
    sizes = [30_000, 2_000, 70_000]
    watch.set_idle_gap(GAP_NS)
    with connected(pair.b, pair.a, V4["a"]) as (client, server):
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
    with connected(pair.b, pair.a, V4["a"]) as (client, server):
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
