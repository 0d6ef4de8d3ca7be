# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from sluice.sweep.points import Point
from sluice.sweep.table import figures, rows, terminal_table, write
from tests.kit.bundles import bundle, document, flow


def point(
    folder: Path, scheme: str, seed: int, fct_us: float, *, unfinished: int = 0, reasons: Sequence[str] = ()
) -> Point:
    """Return a point and write its bundle, with one flow and some that did not finish."""
    made = Point(scheme, 0.5, seed, document(scheme, seed))
    flows = [flow(1, 5000, fct_us, scheme=scheme), *(flow(9 + i, 5000, None) for i in range(unfinished))]
    bundle(folder / made.name, made.document, flows, reasons=reasons)
    return made


def text(table: Sequence[dict[str, Any]], width: int = 200) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(terminal_table(table))
    return capture.get()


def test_rows__one_a_point_with_the_figures_of_its_summary(tmp_path: Path) -> None:
    found = rows(tmp_path, [point(tmp_path, "dctcp", 1, 100.0), point(tmp_path, "pias", 1, 50.0)])
    assert [(row["scheme"], row["load"], row["seed"]) for row in found] == [
        ("dctcp", 0.5, 1),
        ("pias", 0.5, 1),
    ]
    summary = json.loads((tmp_path / found[1]["bundle"] / "summary.json").read_text())
    assert found[1]["fct_us_small_p99"] == summary["fct_us"]["small"]["p99"] == 50.0
    assert figures(summary).items() <= found[1].items()


def test_write__the_file_holds_the_rows(tmp_path: Path) -> None:
    found = rows(tmp_path, [point(tmp_path, "dctcp", 1, 100.0)])
    assert pq.read_table(write(tmp_path, found)).to_pylist() == found


def test_terminal_table__mean_and_deviation_over_the_seeds(tmp_path: Path) -> None:
    found = rows(tmp_path, [point(tmp_path, "dctcp", 1, 1000.0), point(tmp_path, "dctcp", 2, 3000.0)])
    assert "over 2 seeds" in text(found)
    assert "2.00 ± 1.41" in text(found)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"unfinished": 2}, "2 flows unfinished"),
        ({"reasons": ["the CPU was saturated"]}, "1 of 1 runs not valid"),
    ],
)
def test_terminal_table__what_is_doubtful_is_said(tmp_path: Path, made: dict[str, Any], said: str) -> None:
    assert said in text(rows(tmp_path, [point(tmp_path, "dctcp", 1, 1000.0, **made)]))
