# SPDX-License-Identifier: Apache-2.0
"""Every option of the experiments gets wrong values. Each ends with code 2 and a line that names the option."""

from pathlib import Path
from typing import Any

import pytest

from experiments.__main__ import load_all, main
from experiments.kit.experiment import Experiment, read_verdict
from experiments.kit.main import parser, read_command
from sluice.commands.arguments import folder
from sluice.policy.errors import SluiceError

VALUES = ("", " ", "x", "-1", "nan", "1e400", "TEXT", "TEXT/x")
OF_A_SCENARIO = ("--sizes", "--gaps", "--urgent-after")
"""Options that become values of a scenario, which is checked before the first run."""
NEW_FOLDERS = {"x", "-1", "nan", "1e400"}
"""Values that can name a folder that does not exist yet."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "TEXT").write_text("no folder")
    monkeypatch.chdir(tmp_path)


def test_a_wrong_value_ends_with_a_line_that_names_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    judged = set()  # several experiments share an option
    for experiment in load_all():
        for action in parser(experiment)._actions:
            option = next(iter(action.option_strings), "")
            kind = option, action.type, tuple(action.choices or ())
            if action.nargs == 0 or option in ("", *OF_A_SCENARIO) or kind in judged:
                continue
            judged.add(kind)
            is_folder = action.type is folder
            for value in VALUES if not is_folder else set(VALUES) - NEW_FOLDERS:
                said = refusal([f"{option}={value}"], experiment, capsys)
                assert option in said, f"{experiment.name} {option}={value!r}"


def refusal(words: list[str], experiment: Experiment[Any], capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a command line ends with; empty if it is accepted."""
    try:
        read_command(experiment, words)
    except SystemExit as ended:
        said = capsys.readouterr().err.splitlines()[-1]
        return said if ended.code == 2 else ""
    except SluiceError as error:
        return str(error)
    return ""


def test_a_misspelt_name_has_a_suggestion() -> None:
    with pytest.raises(
        SluiceError, match=r"no experiment pias_14 \(did you mean pias_144\?\); the names are"
    ):
        main(["pias_14"])


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 9999])
def test_a_damaged_verdict_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "verdict.json").write_text(text)
    with pytest.raises(SluiceError, match=r"verdict\.json: .*run the experiment again"):
        read_verdict(tmp_path)
    with pytest.raises(SluiceError, match=r"TEXT has no verdict\.json"):
        read_verdict(tmp_path / "TEXT")
