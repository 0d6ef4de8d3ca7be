# SPDX-License-Identifier: Apache-2.0
"""A port between switches has its own marking threshold."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest

from policy.behaviour import PortBehaviour
from runtime.wait import wait_until
from tests.net.conftest import install
from topologies import measure
from topologies.measure import Sender
from topologies.testbed import Testbed

CORE, EDGE = "s1:3", "s1:1"


def counted(bed: Testbed, port: str) -> tuple[int, int]:
    """Return how many packets the port has sent, and how many of them it has marked."""
    queues = bed.port_counters(port)
    return sum(queue.packets for queue in queues), sum(queue.marked for queue in queues)


def marks_next(bed: Testbed, port: str) -> bool:
    """Return whether the port marks any of its next thousand packets."""
    sent, marked = counted(bed, port)
    wait_until(lambda: counted(bed, port)[0] > sent + 1000, f"{port} sends", timeout_s=20)
    return counted(bed, port)[1] > marked


@pytest.mark.alone
def test_only_the_ports_whose_threshold_is_exceeded_mark(start_testbed: Callable[..., Testbed]) -> None:
    """Two hosts overload the core link and a host's link. Only the port with the lower threshold marks."""
    rates = {"host_rate_bps": 20_000_000, "core_rate_bps": 20_000_000}
    high, low = 2_000_000, 10_000
    with (
        start_testbed("dumbbell", parameters={"left": 2, "right": 2, **rates}) as bed,
        ExitStack() as traffic,
    ):
        install(bed, queue_of_tag=lambda tag: 0)
        assert not bed.topology.port_by_id[CORE].edge
        bed.set_behaviour(PortBehaviour(high, core_mark_bytes=low))
        for host in ("h1", "h3"):
            traffic.enter_context(measure.Receiver(bed, host))
        for source, to in (("h1", "h3"), ("h2", "h3"), ("h2", "h1"), ("h3", "h1")):
            address = bed.topology.host_by_name[to].ipv4
            sender = Sender(source, address, tags=(1,), ecn=2, for_s=300.0)
            traffic.enter_context(measure.sending(bed, sender))
        assert marks_next(bed, CORE)
        assert not marks_next(bed, EDGE)
        bed.set_behaviour(PortBehaviour(low, core_mark_bytes=high))
        assert marks_next(bed, EDGE)
        assert not marks_next(bed, CORE)
