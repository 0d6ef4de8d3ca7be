# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.kit.draw import Line, Panel, against_load, distribution, grid, intervals, line_of, save
from experiments.kit.experiment import Given
from experiments.kit.paired import Difference
from experiments.kit.runs import Results
from tests.unit.experiments.kit.test_runs import RUNS


def values(data: object) -> list[float]:
    found: list[float] = np.asarray(data, float).tolist()
    return found


def test_against_load__a_row_for_each_group(tmp_path: Path) -> None:
    results = Results(Given(tmp_path), {"one": RUNS, "two": RUNS})
    lines = {"a": line_of("pias"), "b": line_of("dctcp")}
    figure = against_load([Panel("x", "x", "ms", 1.0, log=True)], lines)(results)
    assert [axes.get_title() for axes in figure.axes] == ["one: x", "two: x"]
    assert [values(line.get_ydata()) for line in figure.axes[0].lines] == [[20.0, 2.0], [70.0, 1.0]]
    save(figure, tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 10_000


def test_against_load__only_the_groups_that_are_asked_for(tmp_path: Path) -> None:
    results = Results(Given(tmp_path), {"main": RUNS, "varied": RUNS})
    figure = against_load([Panel("x", "x", "ms", 1e-3)], {"a": line_of("pias")}, ["main"])(results)
    assert [axes.get_title() for axes in figure.axes] == ["x"]
    assert values(figure.axes[0].lines[0].get_ydata()) == [0.02, 0.002]


def test_intervals__in_per_cent() -> None:
    _, [[axes]] = grid(1, 1)
    intervals(axes, [0], [Difference(-0.1, -0.3, 0.1, 5, 0.0)], Line("x", "black"))
    [container] = axes.containers
    assert values(container[0].get_ydata()) == [-10.0]


def test_distribution__flows_that_never_end_keep_it_below_one() -> None:
    _, [[axes]] = grid(1, 1)
    distribution(axes, np.asarray([3.0, np.nan, 1.0, 2.0]), Line("x", "black"))
    [line] = axes.lines
    assert values(line.get_xdata()) == [1.0, 2.0, 3.0]
    assert values(line.get_ydata()) == pytest.approx([0.25, 0.5, 0.75])
