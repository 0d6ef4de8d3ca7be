# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import io
from pathlib import Path
from urllib.parse import unquote

import pytest

from sluice.report.board import Board, board
from sluice.report.runs import Variant, find_runs, variants
from tests.kit.bundles import bundle, document, flow, random_flows


def of(tmp_path: Path, slower: dict[str, float], flows: int = 300) -> tuple[list[Variant], Board]:
    """Return the scoreboard of schemes, each so much slower than the first. The same seed gives the same flows."""
    for scheme, factor in slower.items():
        records = random_flows(1, slower=factor, flows=flows, scheme=scheme)
        bundle(tmp_path / scheme, document(scheme), records)
    found = variants(find_runs([tmp_path]))
    return found, board(found, found[0], 0.5, ["small", "medium", "large"])


def test_board__a_scheme_that_is_twice_as_slow_is_worse_in_all_means(tmp_path: Path) -> None:
    _, found = of(tmp_path, {"dctcp": 1.0, "pias": 2.0})
    base, other = found.rows
    assert [cell.ratio for cell in base.cells if cell.ratio] == []
    means = [
        cell for heading, cell in zip(found.headings, other.cells, strict=True) if "Small mean" in heading
    ]
    assert [(cell.ratio, cell.verdict) for cell in means] == [("×2.00 ▲ worse", "worse")]


def test_board__the_interval_is_around_the_value_and_narrower_with_more_flows(tmp_path: Path) -> None:
    widths = []
    for flows in (100, 3000):
        _, found = of(tmp_path / str(flows), {"dctcp": 1.0}, flows)
        cell = found.rows[0].cells[found.headings.index("Mean slowdown")]
        low, high = map(float, cell.interval.split(" to "))
        assert low <= float(cell.value) <= high
        widths.append(high - low)
    assert widths[1] < widths[0] / 3


def test_board__few_flows_say_not_sure(tmp_path: Path) -> None:
    _, found = of(tmp_path, {"dctcp": 1.0, "pias": 2.0}, flows=20)
    assert {cell.verdict for cell in found.rows[1].cells if cell.ratio} == {"not sure"}


def test_board__the_flows_of_all_seeds_count(tmp_path: Path) -> None:
    for seed, fct_us in ((1, 1000.0), (2, 3000.0)):
        bundle(tmp_path / str(seed), document(seed=seed), [flow(i, 1000, fct_us) for i in range(50)])
    (variant,) = variants(find_runs([tmp_path]))
    found = board([variant], variant, 0.5, ["small"])
    assert (found.rows[0].flows, found.rows[0].cells[0].value) == ("100", "2.00")
    assert found.headings[0] == "Small mean, ms"


def test_board__has_all_figures_as_csv(tmp_path: Path) -> None:
    labels, found = of(tmp_path, {"dctcp": 1.0, "pias": 2.0})
    kind, _, text = found.csv_uri.partition(",")
    assert kind == "data:text/csv;charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(unquote(text))))
    (row,) = [
        r for r in rows if (r["variant"], r["class"], r["figure"]) == (labels[1].label, "small", "mean_us")
    ]
    assert float(row["ratio"]) == pytest.approx(2.0, rel=1e-4)
    assert (row["verdict"], float(row["low"]) < float(row["value"])) == ("worse", True)
