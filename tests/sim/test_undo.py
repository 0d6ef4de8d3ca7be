# SPDX-License-Identifier: Apache-2.0
"""When a reduction for packets that were only late is undone: [simulator] undo."""

from __future__ import annotations

import pytest

from tests.sim import kit
from tests.sim.kit import FRAME, MS, PAYLOAD, Link

RATE = 10**8
PACKETS = 60


def needless(undoes_late: bool) -> tuple[int, int]:
    """Return retransmissions and packets that left their host, if a flow's later packets overtake earlier ones.

    Both queues have a share, so the flow's last packets, in the second queue, pass those that wait in the first.
    """
    settings = kit.transport(
        recovers_as_linux=True, undoes_late=undoes_late, initial_window=PACKETS, rto_min_ps=100 * MS
    )
    shared = Link(RATE, discipline=kit.shares([0.5, 0.5], 4 * FRAME))
    net = kit.single(2, settings, down=shared)
    queue_of = [0] * kit.TAGS
    queue_of[12:] = [1] * (kit.TAGS - 12)
    net.fabric.set_queue_of(net.towards[1], queue_of)
    net.flow(0, 1, PACKETS * PAYLOAD)
    result = net.finish()
    assert net.fabric.packets_dropped == 0
    assert result["outcome"].tolist() == [kit.FINISHED]
    return int(result["retransmissions"][0]), net.port(0).packets


def test_a_late_packet_ends_the_retransmissions_only_if_none_is_in_flight() -> None:
    """tcp_try_undo_partial: Linux waits for the retransmissions that are in flight, and keeps the lost packets lost."""
    early, late = needless(False), needless(True)
    assert 0 < early[0] < late[0]


@pytest.mark.parametrize("undoes_late", [False, True])
def test_only_data_that_was_retransmitted_leaves_twice(undoes_late: bool) -> None:
    retransmissions, left = needless(undoes_late)
    assert left <= PACKETS + retransmissions + 1
    assert needless(undoes_late) == (retransmissions, left)
