# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from sluice.policy.errors import FieldError
from sluice.policy.figures.metrics import summarise, summarise_watched
from sluice.policy.wire.records import FlowRecord, size_class

RECORD = {
    "id": "run/1",
    "src": "h1",
    "dst": "h2",
    "bytes": 10_000,
    "size_class": "small",
    "started_at": 1e9,
    "fct_us": 2000.0,
    "ideal_us": 1000.0,
    "deadline_us": None,
    "met": None,
    "retransmissions": 0,
    "congestion_control": "sluice_dctcp",
    "scheme": "dctcp",
    "status": "finished",
}


def record(**changes: Any) -> FlowRecord:
    return FlowRecord.from_document(RECORD | changes)


def test_from_document__round_trips() -> None:
    assert FlowRecord.from_document(record().to_document()) == record()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": ""}, "id"),
        ({"id": "a b"}, "id"),
        ({"bytes": -1}, "bytes"),
        ({"bytes": True}, "bytes"),
        ({"bytes": 10**14}, "bytes"),
        ({"fct_us": float("nan")}, "fct_us"),
        ({"fct_us": float("inf")}, "fct_us"),
        ({"fct_us": None}, "fct_us"),
        ({"status": "unfinished"}, "fct_us"),
        ({"met": True}, "met"),
        ({"deadline_us": 5.0}, "met"),
        ({"met": 1}, "met"),
        ({"size_class": "tiny"}, "size_class"),
        ({"reason": "x" * 201}, "reason"),
        ({"colour": "red"}, "colour"),
        ({"ideal_us": None}, "ideal_us"),
        ({"retransmissions": None}, "retransmissions"),
        ({"source": "seen"}, "source"),
        ({"source": "watched", "src_port": 0}, "src_port"),
        ({"source": "watched", "dst_port": 65_536}, "dst_port"),
        ({"source": "watched", "dst_port": 80.0}, "dst_port"),
        ({"source": "watched", "lasted_us": -1}, "lasted_us"),
        ({"source": "watched", "timeouts": 1.5}, "timeouts"),
        ({"src": "fd09::1 "}, "src"),
    ],
)
def test_from_document__names_the_bad_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as caught:
        record(**change)
    assert caught.value.field == field


WATCHED = {
    "source": "watched",
    "ideal_us": None,
    "src": "h1",
    "dst": "fd09::2",
    "src_port": 40_000,
    "dst_port": 80,
}


def test_from_document__a_watched_flow_has_addresses_and_no_ideal() -> None:
    watched = record(**WATCHED, lasted_us=9e6, timeouts=1, srtt_us=215.0)
    assert FlowRecord.from_document(watched.to_document()) == watched
    assert watched.slowdown is None


def test_size_class__limits_belong_to_the_class_below() -> None:
    assert size_class(100_000) == "small"
    assert size_class(100_001) == "medium"
    assert size_class(10_000_001) == "large"
    assert size_class(10_001, scale=0.1) == "medium"


def test_summarise__counts_unfinished_flows_and_misses_and_drops_nothing() -> None:
    late = {"deadline_us": 1000.0, "met": False}
    records = [
        record(),
        record(id="2", fct_us=4000.0, **late),
        record(id="3", deadline_us=9000.0, met=True),
        record(id="4", fct_us=None, status="unfinished", **late),
    ]
    summary = summarise(records)
    assert summary["fct_us"]["small"]["n"] == 3
    assert summary["slowdown"]["all"]["mean"] == pytest.approx((2 + 4 + 2) / 3)
    assert summary["deadlines"] == {"n": 3, "missed": 2, "miss_ratio": pytest.approx(2 / 3)}
    assert summary["unfinished"] == 1
    assert summary["fct_us"]["large"]["mean"] is None


def test_summarise__watched_flows_are_told_apart() -> None:
    missed = {"deadline_us": 1000.0, "met": False}
    watched = [record(id="w/1", **WATCHED, **missed, retransmissions=2), record(id="w/2", **WATCHED)]
    assert summarise([record(), *watched]) == summarise([record()])
    figures = summarise_watched([record(), *watched])
    assert (figures.pop("fct_us")["all"]["n"], figures.pop("slowdown")["all"]["n"]) == (2, 0)
    assert figures == {
        "n": 2,
        "bytes": 20_000,
        "retransmissions": 2,
        "unfinished": 0,
        "deadlines": 1,
        "missed": 1,
    }
