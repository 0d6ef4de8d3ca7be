# SPDX-License-Identifier: Apache-2.0
"""After its deadline a flow is the most urgent one, or one without a deadline."""

from __future__ import annotations

import numpy as np
import pytest

from sluice.dataplane.windows import Window
from sluice.policy.tags import ATTAINED_FIRST, ATTAINED_LAST, URGENCY_FIRST, URGENCY_LAST
from sluice.simulator import _fabric as core
from tests.sim import kit
from tests.sim.kit import MS, Link, single, transport

DEADLINE_PS = 2 * MS
SIZE_BYTES = 10_000_000
"""8 ms of the link, so three quarters of the flow are late."""


def late_flow(*, forgets_late: bool, until_ps: int) -> tuple[kit.Array, Window]:
    """Return, for a late flow on an idle link, the bytes that it sent by tag, and its last window."""
    settings = transport(control=core.Control.ucp, tags_deadlines=True, forgets_late=forgets_late)
    net = single(2, settings, down=Link(more={"count_tags": True}))
    net.flow(0, 1, SIZE_BYTES, deadline_ps=DEADLINE_PS)
    net.run(until_ps)
    return net.fabric.tag_counters()[net.towards[1]][:, 1].astype(np.int64), net.windows()[0]


@pytest.mark.parametrize("forgets_late", [False, True])
def test_deadline__until_it_has_passed_the_tag_is_the_urgency(forgets_late: bool) -> None:
    sent, _ = late_flow(forgets_late=forgets_late, until_ps=DEADLINE_PS)
    assert sent[URGENCY_FIRST : URGENCY_LAST + 1].sum() == sent.sum() > 0


def test_late__goes_on_as_the_most_urgent() -> None:
    sent, window = late_flow(forgets_late=False, until_ps=6 * MS)
    assert sent[ATTAINED_FIRST : ATTAINED_LAST + 1].sum() == 0
    assert sent[URGENCY_LAST] > SIZE_BYTES / 4
    assert window.urgency_q16 > 10 << 16


def test_late__plain_goes_on_as_a_flow_without_a_deadline() -> None:
    sent, window = late_flow(forgets_late=True, until_ps=6 * MS)
    before, _ = late_flow(forgets_late=True, until_ps=DEADLINE_PS)
    late = (sent - before)[ATTAINED_FIRST : ATTAINED_LAST + 1]
    assert late.sum() > SIZE_BYTES / 5  # packets that waited at the deadline keep their tags
    assert np.flatnonzero(late).min() > 24  # tags of flows that sent more than a megabyte
    assert window.urgency_q16 == 1 << 16
