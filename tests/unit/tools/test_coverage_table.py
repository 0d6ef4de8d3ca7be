# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from coverage import Coverage

from tools import coverage_table


def summary(statements: int, covered: int, branches: int = 0, taken: int = 0) -> dict[str, dict[str, int]]:
    return {
        "summary": {
            "num_statements": statements,
            "missing_lines": statements - covered,
            "covered_lines": covered,
            "num_branches": branches,
            "num_partial_branches": 0,
            "covered_branches": taken,
        }
    }


FILES = {"policy/a.py": summary(10, 10, 4, 2), "policy/b/c.py": summary(6, 4), "store/d.py": summary(20, 5)}


def test_by_package__adds_up_the_files_of_a_folder() -> None:
    packages = coverage_table.by_package(FILES)
    assert list(packages) == ["policy", "store"]
    assert packages["policy"]["num_statements"] == 16
    assert coverage_table.percent(packages["policy"]) == pytest.approx(80)


def test_percent__of_nothing_is_all() -> None:
    assert coverage_table.percent(Counter()) == 100


def test_table__ends_with_the_total() -> None:
    lines = coverage_table.table(coverage_table.by_package(FILES))
    assert lines[1].split() == ["policy", "16", "2", "4", "0", "80.0", "%"]
    assert lines[-1].split() == ["total", "36", "17", "4", "0", "52.5", "%"]


@pytest.mark.parametrize(("measured", "code", "word"), [(69.9, 2, "below"), (70, 0, ""), (75, 0, "raise")])
def test_verdict(measured: float, code: int, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert coverage_table.verdict(measured, 70) == code
    assert word in capsys.readouterr().out


def test_main__reads_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "package").mkdir()
    source = tmp_path / "package" / "code.py"
    source.write_text("x = 1\nif x:\n    y = 2\nelse:\n    y = 3\n")
    data = Coverage(data_file=str(tmp_path / ".coverage")).get_data()
    data.add_lines({str(source): [1, 2, 3]})
    data.write()
    assert coverage_table.main() == 0
    assert "package                4           1" in capsys.readouterr().out


def test_main__says_what_to_do_without_a_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert coverage_table.main() == 1
    assert "make coverage" in capsys.readouterr().err
