# SPDX-License-Identifier: Apache-2.0
"""The notebook runs from its first cell to its last, and makes the figure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.kit.pages import DOCS

NOTEBOOK = DOCS / "notebooks" / "sweep-to-figure.ipynb"
pytestmark = pytest.mark.slow


def book() -> dict[str, Any]:
    """Return the notebook, which is a JSON document."""
    document: dict[str, Any] = json.loads(NOTEBOOK.read_text())
    return document


def sweep() -> pa.Table:
    """A sweep in which scheme b is a tenth faster than scheme a, and one point is not valid."""
    rows = [
        (scheme, load, seed, factor * (100 + seed), factor * 900 * load, True)
        for scheme, factor in (("a", 10.0), ("b", 9.0))
        for load in (0.5, 0.8)
        for seed in (1, 2, 3)
    ]
    rows.append(("a", 0.9, 1, 1e9, 1e9, False))
    columns = ["scheme", "load", "seed", "fct_us_small_mean", "fct_us_small_p99", "valid"]
    return pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows])


def test_every_cell_runs_and_the_figure_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "sweep"
    folder.mkdir(parents=True)
    pq.write_table(sweep(), folder / "sweep.parquet")
    cells = ["".join(cell["source"]) for cell in book()["cells"] if cell["cell_type"] == "code"]
    shown = "print(change.groupby('load').agg(['mean', half_width]).round(1).to_json())"
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-c", "\n".join([*cells, shown])],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"0.5":-10.0,"0.8":-10.0' in done.stdout, "the invalid point at load 0.9 is left out"
    assert (tmp_path / "sweep-to-figure.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "sweep-to-figure.png").stat().st_size > 10_000


def test_the_notebook_holds_no_outputs() -> None:
    assert book()["nbformat"] == 4
    assert not any(cell.get("outputs") for cell in book()["cells"])
