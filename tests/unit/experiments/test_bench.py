# SPDX-License-Identifier: Apache-2.0
"""The switches that the benchmark plays: the controller reads from their replies what they have counted."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.bench.switches import Switch
from sluice import topologies
from sluice.controller.openflow.answers import Answer, AnswerReader, StatsReply
from sluice.controller.openflow.counters import carried_counts, completed_counts
from sluice.controller.openflow.frames import Framer
from sluice.controller.openflow.request import counters_request
from sluice.controller.tables import Table
from sluice.policy import tags
from sluice.policy.schema.desired import Policy
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
