# SPDX-License-Identifier: Apache-2.0

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.policy.errors import FieldError
from sluice.policy.workload.listed_flows import ExplicitWorkload, FlowTable
from sluice.policy.workload.sizes import (
    Mix,
    MixPart,
    SizeCdf,
    mean_by_part,
    mean_wire_bytes,
    parse_cdf,
    scaled_bytes,
)
from sluice.runs.files import load_cdf

WORKLOADS = Path(__file__).parents[3] / "sluice" / "data" / "workloads"
PACKET = 1460

PUBLISHED_MEANS = {
    "web-search": 1140.98 * PACKET,
    "data-mining": 5116.6 * PACKET,
    "web-search-bytes": 1_711_250,
    "data-mining-bytes": 12.66e6,
    "cache-follower": 624 * PACKET,
    "hadoop": 2832 * PACKET,
}
"""Interpolated means from other sources, in bytes."""


@pytest.mark.parametrize("name", PUBLISHED_MEANS)
def test_parse_cdf__published_means(name: str) -> None:
    assert load_cdf(name).mean_bytes == pytest.approx(PUBLISHED_MEANS[name], rel=1e-3)


@pytest.mark.parametrize("path", sorted(WORKLOADS.glob("*.cdf")), ids=lambda path: path.stem)
def test_tables__say_where_they_are_from_and_draw_what_they_say(path: Path) -> None:
    assert path.read_text().startswith("# ")
    cdf = load_cdf(path.stem)
    uniform = (np.arange(100_000) + 0.5) / 100_000
    sizes, _ = cdf.at(uniform)
    shorter = np.searchsorted(np.sort(sizes), cdf.sizes_bytes, side="right") / len(sizes)
    at_end = {
        size: max(c for s, c in zip(cdf.sizes_bytes, cdf.cumulative, strict=True) if s == size)
        for size in cdf.sizes_bytes
    }
    for size, share in zip(cdf.sizes_bytes, shorter, strict=True):
        assert share == pytest.approx(at_end[size], abs=2e-5), f"up to {size:g} B"
    if cdf.packet_bytes:
        assert (sizes % cdf.packet_bytes == 0).all()


def test_parse_cdf__a_head_above_zero_and_steps_are_single_sizes() -> None:
    cdf = parse_cdf("x", "6 0.25\n6 0.5\n10 0.5\n10 1")
    sizes, _ = cdf.at(np.asarray([0.0, 0.1, 0.3, 0.499, 0.501, 0.9]))
    assert sizes.tolist() == [6, 6, 6, 6, 10, 10]
    assert cdf.mean_bytes == 8


def test_parse_cdf__packets_are_rounded_up() -> None:
    cdf = parse_cdf("x", "# table\npacket_bytes 1000\n1 0\n1 0.5\n3 1")
    sizes, _ = cdf.at(np.asarray([0.0, 0.4999, 0.5001, 0.75, 0.7501, 0.9999]))
    assert sizes.tolist() == [1000, 1000, 2000, 2000, 3000, 3000]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "two points"),
        ("1 0", "two points"),
        ("1 0\n2 0.5", "0.5"),
        ("0 0\n0 1", "above 0"),
        ("1 0\n2 0.9\n3 0.5\n4 1", "line 3"),
        ("# head\n2 0\n1 1", "line 3"),
        ("1 -1\n2 1", "line 1"),
        ("1 zero\n2 1", "line 1"),
        ("1 nan\n2 1", "line 1"),
        ("1 0\ninf 1", "line 2"),
        ("1 0 3\n2 1", "line 1"),
        ("1 0\npacket_bytes 1460\n2 1", "line 2"),
        ("packet_bytes\n1 0\n2 1", "line 1"),
        ("packet_bytes \u00b2\n1 0\n2 1", "line 1"),
        (f"packet_bytes {'9' * 5000}\n1 0\n2 1", "line 1"),
    ],
)
def test_parse_cdf__bad_tables_name_file_and_line(text: str, says: str) -> None:
    with pytest.raises(FieldError, match=says) as caught:
        parse_cdf("bad.cdf", text)
    assert caught.value.field == "bad.cdf"


def test_mix__of_tables() -> None:
    tables = parse_cdf("a", "0 0\n100 1"), parse_cdf("b", "packet_bytes 1000\n1 0\n2 1")
    mix = Mix((MixPart(None, 0.5, tables[0]), MixPart(None, 0.25, tables[1]), MixPart(7, 0.25)))
    sizes, parts = mix.at(np.asarray([0.0, 0.25, 0.4999, 0.5, 0.51, 0.7499, 0.75, 0.99]))
    assert parts.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert sizes == pytest.approx([0, 50, 99.98, 1000, 2000, 2000, 7, 7])
    drawn, of = mix.at(np.random.default_rng(1).random(400_000))
    means = mean_by_part(mix, lambda size: size)
    assert means == pytest.approx(np.bincount(of, drawn) / len(drawn), rel=0.01)


@given(
    sizes=st.lists(st.integers(0, 10**7), min_size=2, max_size=8).map(sorted).filter(lambda s: s[-1] > 0),
    seed=st.integers(0, 2**32),
)
def test_mean_by_part__is_the_mean_of_the_table(sizes: list[int], seed: int) -> None:
    steps = np.sort(np.random.default_rng(seed).random(len(sizes)))
    cdf = SizeCdf("x", tuple(sizes), (*steps[:-1], 1.0))
    assert mean_by_part(cdf, lambda size: size).sum() == pytest.approx(cdf.mean_bytes, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("name", ["web-search", "facebook-key-value", "alibaba-storage"])
def test_mean_wire_bytes__is_what_drawn_flows_come_to(name: str) -> None:
    cdf = load_cdf(name)
    sizes = scaled_bytes(cdf.at(np.random.default_rng(3).random(500_000))[0], 0.5)
    wire = sizes + 66 * -(-sizes // 1448)
    assert mean_wire_bytes(cdf, 0.5).sum() == pytest.approx(wire.mean(), rel=0.01)


def test_scaled_bytes__none_below_the_header() -> None:
    assert scaled_bytes(np.asarray([0.0, 3.0, 100.4, 1e6]), 1.0).tolist() == [64, 64, 100, 10**6]
    assert scaled_bytes(np.asarray([1000.0]), 0.1).tolist() == [100]


def workload(columns: str, *rows: Sequence[Any], most: int | None = None) -> ExplicitWorkload:
    names = columns.split(",")
    placed = [(f"line {i}", dict(zip(names, row, strict=True))) for i, row in enumerate(rows, start=2)]
    return FlowTable("x.csv", names, placed).workload(most)


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
        ("time_us,src,dst,bytes", [-1, "h1", "h2", "1KB"], "line 2: time_us: must be a number of at least 0"),
        ("time_us,src,dst,bytes", [math.inf, "h1", "h2", "1KB"], "line 2: time_us: "),
        ("time_s,src,dst,bytes", ["1e9", "h1", "h2", "1KB"], "line 2: time_s: must be a duration from"),
        ("time_s,src,dst,bytes", ["1e999999999", "h1", "h2", "1KB"], "line 2: time_s: "),
        ("time,src,dst,bytes", ["1s", "h1", "h1", "1KB"], 'line 2: dst: must differ from src, "h1"'),
        ("time,src,dst,bytes", ["1s", "h1", "h2", "1.5"], "line 2: bytes: must be whole bytes or a size"),
        ("time,src,dst,bytes", ["1s", "h1", "h2", True], "line 2: bytes: "),
        ("time,src,dst,bytes,deadline", ["1s", "h1", "h2", "1KB", "0s"], "line 2: deadline: must be a"),
        ("tim,src,dst,bytes", ["1s", "h1", "h2", "1KB"], r'"tim": is not a column .*did you mean time\?'),
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
