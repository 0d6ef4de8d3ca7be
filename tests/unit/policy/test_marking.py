# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from policy.marking import MAX_BACKLOG_BYTES, last_mark_bytes


@pytest.mark.parametrize(
    ("mark_bytes", "factor", "expected"),
    [
        (30_000, 1, 0),
        (None, 5, 0),
        (30_000, 2, 60_000),
        (30_000, 100, 3_000_000),
        (MAX_BACKLOG_BYTES, 2, MAX_BACKLOG_BYTES),
    ],
)
def test_last_mark__is_0_if_it_is_that_of_the_other_queues(
    mark_bytes: int | None, factor: int, expected: int
) -> None:
    assert last_mark_bytes(mark_bytes, factor) == expected
