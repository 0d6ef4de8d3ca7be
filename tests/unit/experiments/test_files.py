# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from experiments.cli import main
from experiments.files import SCENARIOS, load_cdf, read_document, scenario_from_file, scenario_with
from policy.errors import SluiceError


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.toml")), ids=lambda p: p.stem)
def test_scenario_from_file__scenarios_that_come_along_are_valid(path):
    scenario, _ = scenario_from_file(path)
    assert scenario.name == path.stem


def test_scenario_from_file__finds_a_scenario_by_name():
    assert scenario_from_file(Path("paper-mix"))[0].name == "paper-mix"


def test_scenario_from_file__names_file_and_key(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text((SCENARIOS / "paper-mix.toml").read_text().replace("load = 0.8", "laod = 0.8"))
    with pytest.raises(SluiceError, match=r"mine\.toml: workload\.(load|laod)"):
        scenario_from_file(path)


def test_scenario_with__a_named_scheme_replaces_the_table():
    scenario, resolved = scenario_with(read_document(Path("paper-mix")), scheme={"name": "tcp"}, seed=9)
    assert scenario.policy.scheme == "tcp"
    assert scenario.seed == 9
    assert resolved["scheme"] == {"name": "tcp"}
    assert resolved["workload"]["flows"] == 1200


def test_scenario_with__other_tables_merge():
    scenario, _ = scenario_with(read_document(Path("paper-mix")), workload={"flows": 7})
    assert scenario.workload.flows == 7
    assert scenario.workload.load == 0.8


def test_load_cdf__lists_what_there_is():
    with pytest.raises(SluiceError, match="web-search"):
        load_cdf("websearch")


@pytest.mark.parametrize(
    "arguments", [["run", "no-such-scenario", "--out", "x"], ["run", "/dev/null", "--out", "x"]]
)
def test_cli__user_errors_are_one_line_and_exit_code_2(arguments, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("sluice: ")
    assert error.count("\n") == 1


def test_cli__help_teaches(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "sluice demo --duration 60" in capsys.readouterr().out
