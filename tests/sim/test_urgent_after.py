# SPDX-License-Identifier: Apache-2.0
"""When the tags of a deadline flow begin to carry its urgency, by a port's counters."""

from __future__ import annotations

import numpy as np
import pytest

from sluice.policy import tags
from sluice.simulator import _fabric as core
from tests.sim import kit
from tests.sim.kit import PAYLOAD, S


@pytest.mark.parametrize("urgent_after_bytes", [0, 50_000, 10**6])
def test_a_deadline_flow_says_its_urgency_from_where_it_is_asked_to(urgent_after_bytes: int) -> None:
    settings = kit.transport(
        control=core.Control.ucp, tags_deadlines=True, urgent_after_bytes=urgent_after_bytes
    )
    net = kit.single(2, settings, down=kit.Link(more={"count_tags": True}))
    net.flow(0, 1, 200 * PAYLOAD, deadline_ps=20 * S)
    net.finish()
    packets = net.fabric.tag_counters()[net.towards[1], :, 0]
    head = min(200, -(-urgent_after_bytes // PAYLOAD))
    urgent = slice(tags.URGENCY_FIRST, tags.URGENCY_LAST + 1)
    by_bytes = [tags.attained_tag(number * PAYLOAD) for number in range(head)]
    assert packets[urgent].sum() == 200 - head
    assert packets.sum() == 200
    expected = np.bincount(np.asarray(by_bytes, int), minlength=tags.TAG_COUNT)
    assert (packets[: tags.URGENCY_FIRST] == expected[: tags.URGENCY_FIRST]).all()
