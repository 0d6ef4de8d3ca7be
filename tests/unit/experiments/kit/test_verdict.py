# SPDX-License-Identifier: Apache-2.0
"""A verdict as JSON, as an exit code, and as a table for documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.kit.verdict import Claim, conclude, markdown, over_loads, read_verdict, spread
from sluice.policy.errors import SluiceError

GOOD, BAD = Claim("a", "b", "c", True), Claim("d", "e", "f", False)


def test_conclude__exit_code_says_whether_a_claim_failed_unexplained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert conclude(tmp_path, "x", [GOOD], {}) == 0
    assert conclude(tmp_path, "x", [Claim("a", "b", "c", False, "the queue conserves work")], {}) == 0
    assert "the queue conserves work" in capsys.readouterr().out
    assert conclude(tmp_path, "x", [GOOD, BAD], {}) == 1
    document = json.loads((tmp_path / "verdict.json").read_text())
    assert (document["claims"][1]["holds"], document["quick"]) == (False, False)


def test_conclude__a_quick_verdict_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conclude(tmp_path, "x", [GOOD], {}, quick=True)
    assert "without --quick" in " ".join(capsys.readouterr().out.split())
    assert read_verdict(tmp_path)["quick"] is True
    assert list(markdown([read_verdict(tmp_path)]))[2:] == ["| x (quick) | a | b | c | yes |"]


def test_markdown__a_row_a_claim_of_every_verdict(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        conclude(tmp_path / name, name, [GOOD, BAD], {})
    rows = list(markdown([read_verdict(tmp_path / name) for name in ("x", "y")]))[2:]
    assert rows[:2] == ["| x | a | b | c | yes |", "| x | d | e | f | **no** |"]
    assert rows[2] == "| y | a | b | c | yes |"


def test_read_verdict__of_a_version_that_knew_no_quick_runs(tmp_path: Path) -> None:
    claim = {"what": "a", "paper": "b", "measured": "c", "holds": True, "explanation": ""}
    (tmp_path / "verdict.json").write_text(json.dumps({"experiment": "x", "claims": [claim], "numbers": {}}))
    assert list(markdown([read_verdict(tmp_path)]))[2:] == ["| x | a | b | c | yes |"]


def test_read_verdict__where_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(SluiceError, match=r"no verdict\.json; give the --out folder"):
        read_verdict(tmp_path)


def test_spread__median_and_range() -> None:
    assert spread([0.9, 0.5, 0.7]) == "0.70 (0.50 … 0.90)"


def test_over_loads__says_which() -> None:
    assert over_loads({0.5: 0.375, 0.8: 2.0}) == "0.38, 2.00 at loads 0.5, 0.8"
    assert over_loads({0.8: 2.0}) == "2.00 at load 0.8"
    assert over_loads({0.8: -0.02}, "+.2f", factor=100, unit=" %") == "−2.00 % at load 0.8"
