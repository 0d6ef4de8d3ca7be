# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from sluice.policy.errors import FieldError
from sluice.policy.workload.listed_flows import ExplicitFlow, ExplicitWorkload, FlowTable


def workload(columns: str, *rows: Sequence[Any], most: int | None = None) -> ExplicitWorkload:
    names = columns.split(",")
    placed = [(f"line {i}", dict(zip(names, row, strict=True))) for i, row in enumerate(rows, start=2)]
    return FlowTable("x.csv", names, placed).workload(most)


def test_values_have_units_as_in_a_scenario() -> None:
    found = workload(
        "time,src,dst,bytes,deadline", ["0s", "h1", "h3", "20KB", "5ms"], ["120us", "h2", "h3", "1MB", ""]
    )
    assert found.flows == (
        ExplicitFlow("h1", "h3", 0.0, 20_000, deadline_us=5000.0),
        ExplicitFlow("h2", "h3", 0.00012, 1_000_000),
    )
    assert [flow.size_known for flow in found.flows] == [True, False]


@pytest.mark.parametrize(
    ("column", "value", "start_s"),
    [("time_s", "1.5", 1.5), ("time_ms", 2, 0.002), ("time_us", 2.5, 2.5e-6), ("time_ns", "1e6", 0.001)],
)
def test_a_column_that_names_its_unit_holds_plain_numbers(column: str, value: object, start_s: float) -> None:
    (flow,) = workload(f"src,{column},dst,bytes", ["h1", value, "h2", 1000]).flows
    assert flow.start_s == pytest.approx(start_s)
    assert flow.bytes == 1000


@pytest.mark.parametrize("nothing", [None, "", math.nan])
def test_an_empty_deadline_is_none(nothing: object) -> None:
    (flow,) = workload("time,src,dst,bytes,deadline_us", ["0s", "h1", "h2", "1000", nothing]).flows
    assert flow.deadline_us is None


def test_only_the_first_rows() -> None:
    rows: list[list[Any]] = [["0s", "h1", "h2", 1000], ["1s", "h1", "h2", 1000], ["oops", "", "", ""]]
    assert len(workload("time,src,dst,bytes", *rows, most=2).flows) == 2
    with pytest.raises(FieldError, match=r"workload.flows: must be at most 2, .* x.csv, not 3"):
        workload("time,src,dst,bytes", *rows[:2], most=3)


@pytest.mark.parametrize(
    ("columns", "row", "message"),
    [
        ("time,src,dst,bytes", ["1", "h1", "h2", "1KB"], 'line 2: time: "1" is not a quantity'),
        ("time,src,dst,bytes", ["-1s", "h1", "h2", "1KB"], "line 2: time: "),
        (
            "time_us,src,dst,bytes",
            ["1us", "h1", "h2", "1KB"],
            "line 2: time_us: must be a number of at least 0",
        ),
        ("time_us,src,dst,bytes", [-1, "h1", "h2", "1KB"], "line 2: time_us: must be a number of at least 0"),
        ("time_us,src,dst,bytes", [math.inf, "h1", "h2", "1KB"], "line 2: time_us: "),
        (
            "time_s,src,dst,bytes",
            ["1e9", "h1", "h2", "1KB"],
            "line 2: time_s: must be a duration from 0ns to 86400s",
        ),
        ("time_s,src,dst,bytes", ["1e999999999", "h1", "h2", "1KB"], "line 2: time_s: "),
        ("time,src,dst,bytes", ["1s", "h1", "h1", "1KB"], 'line 2: dst: must differ from src, "h1"'),
        ("time,src,dst,bytes", ["1s", "h1", "h2", "0"], "line 2: bytes: must be a size from"),
        (
            "time,src,dst,bytes",
            ["1s", "h1", "h2", "1.5"],
            "line 2: bytes: must be whole bytes or a size such as 20KB",
        ),
        ("time,src,dst,bytes", ["1s", "h1", "h2", True], "line 2: bytes: "),
        (
            "time,src,dst,bytes,deadline",
            ["1s", "h1", "h2", "1KB", "0s"],
            "line 2: deadline: must be a duration",
        ),
        ("time,source,dst,bytes", ["1s", "h1", "h2", "1KB"], '"source": is not a column here'),
        (
            "tim,src,dst,bytes",
            ["1s", "h1", "h2", "1KB"],
            r'"tim": is not a column here \(did you mean time\?\)',
        ),
        ("time_h,src,dst,bytes", ["1", "h1", "h2", "1KB"], '"time_h": is not a column here'),
        ("bytes_ms,src,dst,time", ["1", "h1", "h2", "1KB"], '"bytes_ms": is not a column here'),
        ("time,src,dst", ["1s", "h1", "h2"], "bytes: is missing; columns are time, src"),
        (
            "time,time_us,src,dst,bytes",
            ["1s", 1, "h1", "h2", 9],
            '"time_us": is the column time again, after time',
        ),
    ],
)
def test_an_error_names_file_row_and_column(columns: str, row: list[Any], message: str) -> None:
    with pytest.raises(FieldError, match=message) as refused:
        workload(columns, row)
    assert refused.value.field == "workload.trace"
    assert "x.csv: " in str(refused.value)


def test_a_table_without_rows() -> None:
    with pytest.raises(FieldError, match=r"x.csv: has no flow; write one row"):
        workload("time,src,dst,bytes")
