# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from tools import timing


@pytest.mark.parametrize(
    ("passes", "rounds", "decides"),
    [(4, 4, False), (5, 5, True), (0, 5, True), (6, 7, False), (7, 8, True), (10, 20, False)],
)
def test_decided__by_the_interval_of_the_share_of_passes(passes: int, rounds: int, decides: bool) -> None:
    assert timing.decided(passes, rounds) is decides


def test_main__repeats_until_all_is_decided_and_fails_if_most_rounds_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(timing, "ERROR", 0.3)
    monkeypatch.setenv("PYTHONPATH", str(Path(timing.__file__).parents[1]))
    monkeypatch.chdir(tmp_path)
    Path("pytest.ini").write_text("[pytest]\nmarkers = timing: x")
    tests = "import pytest\npytestmark = pytest.mark.timing\ndef test_good(): pass\ndef test_bad(): assert False\n"
    Path("test_it.py").write_text(tests)
    assert timing.main(["test_it.py"]) == 1
    printed = capfd.readouterr().out
    assert "2 of 2 passed: test_it.py::test_good" in printed
    assert "0 of 2 passed: test_it.py::test_bad" in printed
