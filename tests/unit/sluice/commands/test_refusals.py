# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a long run or sweep is said before its length is asked for, and before anything is compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.cli import REMOVED, main

SCENARIO = """
name = "long"
fabric = { topology = "leaf-spine" }
scheme = { name = "dctcp" }
workload = { flows = 1000000000, sizes = "web-search", load = 0.5 }
"""


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def fail(*_: object) -> None:
        raise AssertionError("a refused run asks for its length, or is compiled")

    for name in ("sweep.check_length", "run.check_length", "sweep.predicted_total_s", "run.runner"):
        monkeypatch.setattr(f"sluice.commands.{name}", fail)
    path = tmp_path / "long.toml"
    path.write_text(SCENARIO)
    return path


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([str(word) for word in words]) == 2
    return capsys.readouterr().err


def test_sweep__a_scheme_that_the_fabric_lacks(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(
        capsys, "sweep", scenario, "--on", "testbed", "--schemes", "dctcp", "pfabric", "--out", tmp_path / "o"
    )
    assert "pfabric/load-0.5/seed-01: scheme: pfabric needs" in said


def test_sweep__settings_that_the_simulator_lacks(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--schemes", "d3", "--set", "simulator.multipath=per-packet", "--out", tmp_path / "o")
    assert "simulator.multipath: must be" in refused(capsys, "sweep", scenario, *words)


def test_sweep__a_folder_of_another_fabric(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sweep.json").write_text('{"on": "testbed", "points": {}}')
    assert "holds a sweep on the testbed" in refused(capsys, "sweep", scenario, "--out", tmp_path)


def test_run__a_scheme_that_the_fabric_lacks(
    scenario: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--set", "scheme.name=pfabric", "--on", "testbed", "--out", tmp_path / "o")
    assert "pfabric needs" in refused(capsys, "run", scenario, *words)


@pytest.mark.parametrize("removed", REMOVED)
def test_what_was_removed_names_its_replacement(removed: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, *removed.split())
    assert said == f"sluice: {removed} was removed: {REMOVED[removed]}\n"
