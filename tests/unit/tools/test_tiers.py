# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from tools import tiers
from tools.tiers import Tier, main

UNIT = Tier(("tests/api", "tests/unit"), ("-m", "not alone"))
PASSES = "def test_one(): pass\n"
FAILS = "def test_one(): assert 0\n"
HAS_THE_LOWEST_PRIORITY = """
import os
def test_one(): assert (os.nice(0), os.sched_getscheduler(0)) == (19, os.SCHED_IDLE)
"""


def arguments_of(tier: Tier, *arguments: str) -> list[str] | None:
    command = tier.command(arguments)
    return command and command[command.index("-q") + 1 :]


def test_command__without_a_path_every_folder() -> None:
    assert arguments_of(UNIT, "-k", "store") == ["-m", "not alone", "tests/api", "tests/unit", "-k", "store"]


def test_command__only_the_paths_of_the_tier() -> None:
    chosen = ("tests/unit/test_a.py::test_b", "tests/web", "-x")
    assert arguments_of(UNIT, *chosen) == ["-m", "not alone", "tests/unit/test_a.py::test_b", "-x"]
    assert arguments_of(UNIT, "tests/unit") == ["-m", "not alone", "tests/unit"]


def test_command__the_files_of_a_tier_inside_a_folder() -> None:
    files = Tier(("tests/net/test_a.py", "tests/unit/test_b.py"), ())
    assert arguments_of(files, "tests/net") == ["tests/net/test_a.py"]
    assert arguments_of(files, "tests/net/test_a.py") == ["tests/net/test_a.py"]


def test_marked__every_file_that_uses_the_mark() -> None:
    assert "tests/kernel/test_dctcp.py" in tiers.marked("quiet")
    assert "tests/kernel/test_dctcp.py" not in tiers.marked("alone")


def test_command__none_if_every_path_is_of_another_tier() -> None:
    assert UNIT.command(["tests/unittests", "-x"]) is None


def tier(folder: Path, text: str) -> Tier:
    folder.mkdir()
    (folder / "test_it.py").write_text(text)
    return Tier((str(folder),), ("-p", "no:cacheprovider", "--rootdir", str(folder)))


@pytest.mark.parametrize(
    ("on_real_time", "computing", "expected"),
    [
        (PASSES, HAS_THE_LOWEST_PRIORITY, 0),
        ("", PASSES, 0),
        (FAILS, PASSES, 1),
        (PASSES, FAILS, 1),
    ],
    ids=["all pass", "no test selected", "on real time", "computing"],
)
def test_main__fails_if_any_tier_fails(
    on_real_time: str,
    computing: str,
    expected: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # starts faster
    monkeypatch.setattr(tiers, "QUIET", Tier((), ()))
    monkeypatch.setattr(tiers, "ON_REAL_TIME", (tier(tmp_path / "real", on_real_time),))
    monkeypatch.setattr(tiers, "COMPUTING", tier(tmp_path / "computing", computing))
    assert main([]) == expected
    printed = capfd.readouterr().out
    assert printed.index(str(tmp_path / "real")) < printed.index(str(tmp_path / "computing"))
