# SPDX-License-Identifier: Apache-2.0
"""Records of the flows of a persistent connection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sluice.hostagent.watch import is_complete, to_record
from tests.unit.hostagent.test_watch import (
    DOWNLOAD,
    ELSEWHERE,
    H1,
    FakeWatch,
    fake,
    flow_watch,
    record,
    spool_of,
)

__all__ = ["fake"]

ANSWER = replace(
    DOWNLOAD,
    active=False,
    later=True,
    closed=False,
    received_at_ns=None,
    sent_bytes=20_000,
    received_bytes=300,
    start_ns=10**9,
    first_sent_ns=2 * 10**9,
    last_sent_ns=2_950_000_000,
    sent_at_ns=3 * 10**9,
    min_rtt_us=200,
    followed=True,
)
"""A flow of a persistent connection, at the server."""


def test_to_record__an_answer_begins_with_its_first_write() -> None:
    made = record(ANSWER)
    assert (made.src_port, made.started_at, made.fct_us) == (40_000, 1_700_000_002.0, 1e6)
    assert (made.ack_wait_us, made.lasted_us) == (50_000, 4e6)
    assert made.id == "watched/0123456789ab/77.1000000000"
    declared = replace(ANSWER, declared_start_ns=1_900_000_000, declared_deadline_ns=3_100_000_000)
    assert (record(declared).fct_us, record(declared).deadline_us) == (1.1e6, 1.2e6)
    first = replace(declared, active=True, later=False)
    assert record(first).fct_us == 2e6, "the first flow of the connecting end begins with connect()"


@pytest.mark.parametrize(
    ("deadline_ns", "met"),
    [(3_000_000_000, True), (2_950_200_000, True), (2_950_199_999, False), (2_900_000_000, False)],
)
def test_to_record__a_receiver_that_holds_the_acknowledgement_causes_no_miss(
    deadline_ns: int, met: bool
) -> None:
    assert record(replace(ANSWER, declared_start_ns=2 * 10**9, declared_deadline_ns=deadline_ns)).met is met


def test_to_record__several_uploads_from_an_unwatched_host_have_no_known_start() -> None:
    received = replace(
        ANSWER, remote=ELSEWHERE, sent_bytes=10, received_bytes=50_000, received_at_ns=5 * 10**9
    )
    assert to_record(received, H1, "pias") is None
    assert to_record(replace(received, followed=False, part=True), H1, "pias") is None
    assert record(replace(received, followed=False)).src == str(ELSEWHERE)
    assert record(replace(received, active=True)).src == str(ELSEWHERE), "answers to this host's requests"


@pytest.mark.parametrize(
    ("changes", "complete"),
    [
        ({}, True),
        ({"read_ns": 2_950_000_000 + 9_000_000}, False),
        ({"srtt_us": 3_000_000}, False),
        ({"sent_at_ns": None, "pending_bytes": 1}, False),
        ({"received_bytes": 0}, False),
        ({"active": True}, False),
    ],
)
def test_is_complete(changes: dict[str, Any], complete: bool) -> None:
    assert is_complete(replace(ANSWER, **changes), 10_000_000) is complete


def test_status__an_answer_on_an_open_connection_is_recorded_once(fake: list[FakeWatch]) -> None:
    watch = flow_watch()
    watch.begin()
    fake[0].lives = [ANSWER]
    watch.status()
    watch.status()
    fake[0].ends = [ANSWER]
    fake[0].lives = [replace(ANSWER, start_ns=7 * 10**9, first_sent_ns=8 * 10**9, sent_at_ns=None)]
    watch.status()
    assert [r.id.split("/")[2] for r in spool_of(watch).records] == ["77.1000000000"]
    fake[0].ends = [replace(ANSWER, start_ns=7 * 10**9, first_sent_ns=8 * 10**9, sent_at_ns=9 * 10**9)]
    watch.collect()
    assert watch.recorded == 2


def test_use_idle_gap__sets_the_gap_of_the_kernel(fake: list[FakeWatch]) -> None:
    watch = flow_watch()
    watch.use_idle_gap(5)
    watch.begin()
    for gap_ns in (5_000_000, 5_000_000, 7_000_000):
        watch.use_idle_gap(gap_ns)
    assert fake[0].gaps_ns == [5_000_000, 7_000_000]
