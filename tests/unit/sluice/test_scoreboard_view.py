# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sluice import scoreboard_view
from sluice.policy.figures.scoreboard import Period, Score, ScoredFlows, scoreboard
from sluice.scoreboard_view import cdf_plot, print_scoreboard, write_picture
from sluice.terminal import console


def score(version: int, scheme: str, mean_us: float, count: int = 400) -> Score:
    fct_us = mean_us * np.random.default_rng(version).lognormal(0, 0.3, count)
    began = np.arange(count, dtype=float)
    nothing = np.zeros(count, bool)
    flows = ScoredFlows(
        began,
        began,
        fct_us,
        fct_us / 100,
        np.zeros(count, np.uint8),
        nothing,
        nothing,
        np.zeros(count),
        np.full(count, scheme),
    )
    return Score(Period(version, scheme, 0.0, math.inf), flows)


@pytest.fixture
def board() -> dict[str, Any]:
    scores = [score(2, "dctcp", 4000.0), score(3, "pias", 1000.0), score(4, "ucp", 4000.0)]
    return {"against": 2, "confidence_percent": 95, "versions": scoreboard(scores, 2)}


def test_print_scoreboard__ratio_and_sign_of_each_scheme(
    board: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "width", 100)
    with console.capture() as captured:
        print_scoreboard(board)
    lines = captured.get().splitlines()
    at = next(i for i, line in enumerate(lines) if "PIAS" in line)
    assert "×0.25▼" in lines[at + 1]
    at = next(i for i, line in enumerate(lines) if "UCP" in line)
    assert not {"▼", "▲"} & set(lines[at + 1])
    assert "worse than DCTCP, with 95 %" in captured.get()


def test_cdf_plot__the_faster_scheme_is_left_of_the_slower(board: dict[str, Any]) -> None:
    lines = [str(line) for line in cdf_plot(board["versions"][:2])]
    middle = lines[1 + scoreboard_view.HEIGHT // 2].partition("│")[2]
    drawn = [place for place, sign in enumerate(middle) if sign != "\u2800"]
    assert len(middle) == scoreboard_view.WIDTH
    assert drawn[0] < scoreboard_view.WIDTH / 2 < drawn[-1]


def test_cdf_plot__no_lines_without_small_flows() -> None:
    assert cdf_plot([]) == []


def test_write_picture__is_a_png(board: dict[str, Any], tmp_path: Path) -> None:
    write_picture(board, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
