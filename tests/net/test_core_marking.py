# SPDX-License-Identifier: Apache-2.0
"""A port between switches has its own marking threshold."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from sluice.policy.schema.desired import PortBehaviour
from sluice.runtime.wait import wait_until
from sluice.topologies import measure
from sluice.topologies.measure import Sender
from sluice.topologies.testbed import Testbed
from tests.net.conftest import install

CORE, EDGE = "s1:3", "s1:1"


def marked(bed: Testbed, port: str) -> int:
    """Return how many packets the port has marked."""
    return sum(queue.marked for queue in bed.port_counters(port))


def only_one_marks(bed: Testbed, marks: str, other: str) -> bool:
    """Wait until the one port has marked a hundred more packets. Return whether the other has marked none."""
    before = marked(bed, marks), marked(bed, other)
    wait_until(lambda: marked(bed, marks) > before[0] + 100, f"{marks} marks")
    return marked(bed, other) == before[1]


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
        assert only_one_marks(bed, CORE, EDGE)
        bed.set_behaviour(PortBehaviour(low, core_mark_bytes=high))
        assert only_one_marks(bed, EDGE, CORE)
