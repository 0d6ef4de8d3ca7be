# SPDX-License-Identifier: Apache-2.0
"""The one command line, and the steps from it to a verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.kit.experiment import Given, Script
from experiments.kit.main import main, read_command
from experiments.kit.runners import RunAfterRun
from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import SIMULATOR, TESTBED
from tests.unit.experiments.kit.figure import EXPERIMENT

LINES = Path(__file__).with_name("figure.py").read_text().splitlines()


def test_a_new_figure_is_short() -> None:
    assert len(LINES) < 60


def test_main__a_quick_run_ends_with_plot_numbers_and_verdict(tmp_path: Path) -> None:
    assert main(EXPERIMENT, ["--quick", "--out", str(tmp_path), "--jobs", "1"]) == 0
    verdict = json.loads((tmp_path / "verdict.json").read_text())
    assert (verdict["experiment"], verdict["quick"]) == ("marks", True)
    assert [claim["holds"] for claim in verdict["claims"]] == [True, True]
    [small] = verdict["numbers"]["dctcp"]["0.7"]["small mean, us"]
    summary = json.loads((tmp_path / "dctcp" / "load-0.7" / "seed-01" / "summary.json").read_text())
    assert small == summary["fct_us"]["small"]["mean"]
    assert summary["fct_us"]["all"]["n"] == 300
    assert (tmp_path / "marks.png").stat().st_size > 5000


def test_read_command__defaults() -> None:
    given = read_command(EXPERIMENT, [])
    assert (given.out, given.on, given.quick) == (Path("results/marks"), SIMULATOR, False)
    assert (given.seeds, given.loads, given.flows) == ((1, 2, 3), (0.5, 0.7), 2000)
    assert (given.jobs, given["set"]) == (None, [])


def test_read_command__quick_changes_defaults_and_what_is_given_stays() -> None:
    given = read_command(EXPERIMENT, ["--quick", "--flows", "900"])
    assert (given.out, given.quick) == (Path("results/marks-quick"), True)
    assert (given.seeds, given.loads, given.flows) == ((1,), (0.7,), 900)
    assert read_command(EXPERIMENT, ["--quick", "--out", "here"]).out == Path("here")


def test_read_command__settings_are_read_as_toml() -> None:
    given = read_command(EXPERIMENT, ["--set", "fabric.buffer=9KB", "--set", "grace=1s"])
    assert given["set"] == [("fabric.buffer", "9KB"), ("grace", "1s")]


def test_read_command__a_number_of_seeds() -> None:
    counted = replace(EXPERIMENT, seeds=20)
    assert read_command(counted, []).seeds == tuple(range(1, 21))
    assert read_command(counted, ["--seeds", "3"]).seeds == (1, 2, 3)


def test_read_command__the_fabric_where_there_is_a_choice(capsys: pytest.CaptureFixture[str]) -> None:
    both = replace(EXPERIMENT, on=(TESTBED, SIMULATOR))
    assert both.needs_root
    assert read_command(both, []).on == TESTBED
    assert read_command(both, ["--on", "simulator"]).on == SIMULATOR
    with pytest.raises(SystemExit):
        read_command(EXPERIMENT, ["--on", "simulator"])
    assert "unrecognized arguments" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--flows", "0"], ["--jobs", "0"], ["--seeds", "x"]])
def test_read_command__what_no_run_can_have(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        read_command(EXPERIMENT, words)


def test_help__teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read_command(EXPERIMENT, ["--help"])
    text = capsys.readouterr().out
    for expected in (
        EXPERIMENT.claim,
        "nobody, Fig. 1. About 1 min on two cores",
        "--quick",
        "[1, 2, 3]",
    ):
        assert expected in text


def test_main__a_user_error_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(given: Given) -> None:
        raise SluiceError("no such thing")

    failing = replace(EXPERIMENT, runner=Script(fail))  # type: ignore[arg-type]
    assert main(failing, ["--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "marks: no such thing\n"


def test_read_command__a_quick_run_is_made_once_whether_it_is_valid_or_not() -> None:
    after = replace(EXPERIMENT, runner=RunAfterRun(lambda given: {}))
    assert read_command(after, [])["attempts"] == 3
    assert read_command(after, ["--quick"])["attempts"] == 1
    assert read_command(after, ["--quick", "--attempts", "2"])["attempts"] == 2
