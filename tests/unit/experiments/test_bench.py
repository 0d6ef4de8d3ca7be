# SPDX-License-Identifier: Apache-2.0
"""The switches that the benchmark plays: the controller reads from their replies what they have counted."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Iterator

import numpy as np
import pytest

from experiments.bench.switches import DRAWS, FLOWS_A_POLL, SHIFT_POLLS, Line, Switch, Traffic, draws
from sluice import topologies
from sluice.controller.openflow import (
    Answer,
    AnswerReader,
    Frame,
    Framer,
    MessageType,
    StatsReply,
    carried_counts,
    completed_counts,
    message,
)
from sluice.controller.openflow.request import counters_request
from sluice.controller.tables import Table
from sluice.policy import tags
from sluice.policy.schema.desired import Policy
from sluice.runtime.wait import wait_until
from tests.fakes.openflow import Xids, frames

HOSTS = 24
"""A leaf with so many hosts has tables of several messages."""
BUCKETS = slice(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1)


@pytest.fixture(name="switch", scope="module")
def a_switch() -> Switch:
    topology = topologies.build("leaf-spine", leaves=2, spines=2, hosts_per_leaf=HOSTS)
    leaf = topology.switches[0]
    return Switch(topology, leaf.name, leaf.dpid, Policy.from_document({"scheme": "sluice"}), seed=1)


def numbers(switch: Switch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.arange(1, len(switch.queues) + 1)


def asked(switch: Switch, request: bytes) -> bytes:
    """Return the switch's whole answer to one request."""
    (frame,) = frames(request)
    return bytes(switch.answer(frame))


def statistics_of(answer: bytes) -> StatsReply:
    """Return a statistics reply as the controller reads it."""
    reader = AnswerReader()
    found: list[Answer | None] = [reader.read(frame) for frame in Framer().feed(answer)]
    assert found[:-1] == [None] * (len(found) - 1)
    reply = found[-1]
    assert isinstance(reply, StatsReply)
    return reply


def polled(switch: Switch) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], ...]:
    """Return completed flows, shape (ports, buckets), and packets and bytes, shape (ports, tags)."""
    completed = statistics_of(asked(switch, counters_request(Xids(), Table.ENDS).data))
    carried = statistics_of(asked(switch, counters_request(Xids(), Table.MAP).data))
    of_tags = carried_counts(carried.body, numbers(switch)).values
    return (
        completed_counts(completed.body, numbers(switch)).values.sum(axis=1),
        of_tags[:, 0],
        of_tags[:, 1],
    )


def test_switch__the_controller_reads_the_counters_of_the_traffic(switch: Switch) -> None:
    for _ in range(3):
        completed, packets, size_bytes = polled(switch)
        traffic = switch.traffic
        assert completed.sum() > 0
        np.testing.assert_array_equal(completed, traffic.completed[:, BUCKETS])
        np.testing.assert_array_equal(packets, traffic.packets[:, tags.UNTAGGED : tags.TAG_COUNT])
        np.testing.assert_array_equal(size_bytes, traffic.size_bytes[:, tags.UNTAGGED : tags.TAG_COUNT])


def test_switch__all_messages_of_a_reply_have_the_request_s_number(switch: Switch) -> None:
    xids = Xids()
    xids.last_xid = 0x01020304
    found = frames(asked(switch, counters_request(xids, Table.ENDS).data))
    assert len(found) > 1
    assert {frame.xid for frame in found} == {0x01020305}


def test_switch__at_the_ingress_hosts_send_as_much_as_they_receive(switch: Switch) -> None:
    polled(switch)
    reply = statistics_of(asked(switch, counters_request(Xids(), Table.INGRESS).data))
    hosts = numbers(switch)[:HOSTS]
    counted = carried_counts(reply.body, hosts).values
    np.testing.assert_array_equal(counted[:, 0], switch.traffic.packets[:HOSTS, : tags.TAG_COUNT])


# ── Traffic ────────────────────────────────────────────────────────────────────────────────────


def test_draws__have_the_mean_of_the_workload_in_both_turns() -> None:
    before, after = draws(0), draws(1)
    for growth in (before, after):
        flows = growth.completed.sum(axis=1)
        assert abs(flows.mean() - FLOWS_A_POLL) < 5 * (FLOWS_A_POLL / DRAWS) ** 0.5
        assert abs(flows.var() / FLOWS_A_POLL - 1) < 0.1  # as for independent flows
        payload = growth.size_bytes - 40 * growth.packets
        assert (payload >= 0).all()
    assert after.size_bytes.sum() < 0.5 * before.size_bytes.sum()


def test_traffic__grows_at_every_port_and_changes_its_sizes_after_some_polls() -> None:
    traffic = Traffic(ports=5, seed=3)
    grown = []
    for poll in range(1, 2 * SHIFT_POLLS):
        before = traffic.completed.copy()
        traffic.flows_end(poll)
        grown.append(traffic.completed - before)
        assert (grown[-1].sum(axis=1) > 0).all()
    assert len({one.tobytes() for one in grown}) == len(grown)
    largest = np.asarray(grown)[:, :, BUCKETS].sum(axis=1) @ np.arange(tags.ATTAINED_BUCKETS)
    flows = np.asarray(grown).sum(axis=(1, 2))
    mean_bucket = largest / flows
    assert mean_bucket[: SHIFT_POLLS - 1].mean() > mean_bucket[SHIFT_POLLS - 1 :].mean() + 1


# ── Connections ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(name="listener")
def a_listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def pending(line: Line) -> bool:
    return bool(line.events & select.EPOLLOUT)


def test_line__what_a_slow_controller_has_not_read_waits_as_it_was(listener: socket.socket) -> None:
    """The switch answers the next request from the same memory, and no other connection waits."""
    memory, wanted = bytearray(1 << 20), bytearray(8)

    def answer(frame: Frame) -> memoryview:
        memory[:] = frame.xid.to_bytes(4, "big") * (len(memory) // 4)
        wanted.extend(memory)
        return memoryview(memory)

    line = Line(answer, listener.getsockname()[1], memoryview(bytearray(1 << 16)))
    controller, _ = listener.accept()
    with controller, line.socket:
        for xid in range(1, 100):
            was_pending = pending(line)
            controller.sendall(message(MessageType.BARRIER_REQUEST, xid=xid))
            wait_until(lambda: turned(line) and len(wanted) == 8 + xid * len(memory), "it has answered")  # noqa: B023
            if was_pending:
                break
        assert pending(line)
        controller.settimeout(300)
        received = bytearray()
        while len(received) < len(wanted):
            turned(line)
            received += controller.recv(1 << 20)
        assert not pending(line)
    assert received[8:] == wanted[8:]


def turned(line: Line) -> bool:
    """Let a connection do what it can. Returns True."""
    readable, writable, _ = select.select([line.socket], [line.socket] if pending(line) else [], [], 0.1)
    line.turn((select.EPOLLIN if readable else 0) | (select.EPOLLOUT if writable else 0))
    return True


def test_line__ends_with_its_controller(switch: Switch, listener: socket.socket) -> None:
    line = Line(switch.answer, listener.getsockname()[1], memoryview(bytearray(1 << 16)))
    controller, _ = listener.accept()
    assert controller.recv(8)[:2] == struct.pack("!BB", 4, MessageType.HELLO)
    controller.close()
    with line.socket:
        select.select([line.socket], [], [], 10)
        assert not line.turn(select.EPOLLIN)
