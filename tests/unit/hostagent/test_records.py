# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from sluice.hostagent.records import CLOCK_STEPPED, finished, to_json, unfinished
from sluice.policy.wire.records import FINISHED, UNFINISHED, FlowRecord
from tests.unit.hostagent.flows import flow


def started(deadline_us: float | None = None) -> FlowRecord:
    scheduled = flow(1, deadline_us=deadline_us)
    return unfinished(scheduled, "r" * 300, started_at=1.0, scheme="pias", congestion_control="default")


def complete(record: FlowRecord, arrived_ns: int) -> FlowRecord:
    return finished(
        record,
        started_ns=2_000_000_000,
        arrived_ns=arrived_ns,
        retransmissions=3,
        congestion_control="sluice_dctcp",
    )


@pytest.mark.parametrize(("deadline_us", "met"), [(None, None), (5000.0, False)])
def test_unfinished__has_missed_its_deadline_if_it_has_one(
    deadline_us: float | None, met: bool | None
) -> None:
    record = started(deadline_us)
    assert (record.status, record.met, len(record.reason)) == (UNFINISHED, met, 200)
    assert FlowRecord.from_document(json.loads(to_json(record))) == record


@pytest.mark.parametrize(("deadline_us", "met"), [(None, None), (500.0, True), (499.9, False)])
def test_finished(deadline_us: float | None, met: bool | None) -> None:
    record = complete(started(deadline_us), 2_000_500_000)
    assert (record.status, record.fct_us, record.met, record.reason) == (FINISHED, 500.0, met, "")
    assert (record.started_at, record.retransmissions) == (2.0, 3)
    assert record.congestion_control == "sluice_dctcp"
    assert FlowRecord.from_document(json.loads(to_json(record))) == record


def test_to_json__leaves_out_what_an_earlier_version_may_not_know() -> None:
    document = json.loads(to_json(complete(started(), 2_000_500_000)))
    assert None not in document.values()
    assert "clock_error_us" not in document


def test_finished__an_arrival_before_the_start_is_no_measurement() -> None:
    record = complete(started(500.0), 1_999_999_999)
    assert (record.status, record.reason, record.met) == (UNFINISHED, CLOCK_STEPPED, False)
    FlowRecord.from_document(json.loads(to_json(record)))
