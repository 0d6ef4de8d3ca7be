# SPDX-License-Identifier: Apache-2.0
"""The order of schemes on both fabrics."""

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.checks import scheme_tour
from experiments.kit.main import main

OURS = {"a": [1.0, 2.0], "b": [3.0, 4.0], "c": [5.0, 6.0]}


def test_claim__a_pair_of_which_both_are_sure_is_named() -> None:
    claim = scheme_tour.claim_of("x", OURS, {"a": [3.0, 4.0], "b": [1.0, 2.0], "c": [5.0, 6.0]})
    assert not claim.holds
    assert claim.measured == "2 of 3; not a and b"


@pytest.mark.parametrize(("missed", "left_out"), [([0.1, 0.2], 0), ([None, None], 1)])
def test_scheme_order__reads_two_verdicts_and_leaves_out_a_figure_that_one_lacks(
    tmp_path: Path, missed: list[float | None], left_out: int
) -> None:
    columns = scheme_tour.ORDER_FIGURES.values()
    ours: dict[str, dict[str, Any]] = {
        scheme: dict.fromkeys(columns, values) for scheme, values in OURS.items()
    }
    theirs = {scheme: figures | {"miss_ratio": missed} for scheme, figures in ours.items()}
    for folder, numbers in (("ours", ours), ("theirs", theirs)):
        (tmp_path / folder).mkdir()
        document = {"experiment": "scheme_tour", "claims": [], "numbers": numbers}
        (tmp_path / folder / "verdict.json").write_text(json.dumps(document))
    words = [str(tmp_path / "ours"), str(tmp_path / "theirs"), "--out", str(tmp_path / "both")]
    assert main(scheme_tour.ORDER, words) == 0
    claims = json.loads((tmp_path / "both" / "verdict.json").read_text())["claims"]
    assert len(claims) == len(columns) - left_out
