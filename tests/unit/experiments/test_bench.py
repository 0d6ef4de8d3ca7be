# SPDX-License-Identifier: Apache-2.0
"""The switches that the benchmark plays: the controller reads from their replies what they have counted."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

import numpy as np
import pytest

from experiments.bench.switches import Line, Switch
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


# ── Traffic ────────────────────────────────────────────────────────────────────────────────────


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
