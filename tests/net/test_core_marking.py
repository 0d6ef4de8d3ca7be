# SPDX-License-Identifier: Apache-2.0
"""A port between switches has its own marking threshold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from policy.behaviour import PortBehaviour
from tests.net.conftest import install
from topologies import measure
from topologies.measure import Sender
from topologies.testbed import Testbed

CORE, EDGE = "s1:3", "s1:1"


def marked(bed: Testbed, port: str) -> int:
    return sum(queue.marked for queue in bed.port_counters(port))


@pytest.mark.alone
def test_only_the_ports_whose_threshold_is_exceeded_mark(start_testbed: Callable[..., Testbed]) -> None:
    """Two hosts overload the core link and a host's link. Only the port with the lower threshold marks."""
    rates = {"host_rate_bps": 20_000_000, "core_rate_bps": 20_000_000}
    with start_testbed("dumbbell", parameters={"left": 2, "right": 2, **rates}) as bed:
        install(bed, queue_of_tag=lambda tag: 0)
        assert not bed.topology.port_by_id[CORE].edge
        to_right = [
            Sender(h, bed.topology.host_by_name["h3"].ipv4, tags=(1,), ecn=2, for_s=1.0) for h in ("h1", "h2")
        ]
        to_left = [
            Sender(h, bed.topology.host_by_name["h1"].ipv4, tags=(1,), ecn=2, for_s=1.0) for h in ("h2", "h3")
        ]
        for behaviour, core_marks, edge_marks in (
            (PortBehaviour(2_000_000, core_mark_bytes=10_000), True, False),
            (PortBehaviour(10_000, core_mark_bytes=2_000_000), False, True),
        ):
            bed.set_behaviour(behaviour)
            before = marked(bed, CORE), marked(bed, EDGE)
            measure.transmit(bed, "h3", to_right)
            measure.transmit(bed, "h1", to_left)
            assert (marked(bed, CORE) > before[0]) is core_marks
            assert (marked(bed, EDGE) > before[1]) is edge_marks
