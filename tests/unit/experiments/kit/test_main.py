# SPDX-License-Identifier: Apache-2.0
"""The one command line, and the steps from it to a verdict."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.__main__ import EXPERIMENTS, load
from experiments.__main__ import main as experiments_main
from experiments.kit.experiment import Given, Script
from experiments.kit.main import README, main, page, read_command
from experiments.kit.runners import RunAfterRun
from sluice.policy.errors import EnvironmentLacking, SluiceError
from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.runs.files import scenario_with
from tests.unit.experiments.kit import figure

EXPERIMENT = replace(figure.EXPERIMENT, name="marks")


@pytest.mark.slow
def test_main__a_quick_run_ends_with_plot_numbers_and_verdict(tmp_path: Path) -> None:
    assert main(EXPERIMENT, ["--quick", "--out", str(tmp_path), "--jobs", "1"]) == 0
    verdict = json.loads((tmp_path / "verdict.json").read_text())
    assert (verdict["experiment"], verdict["quick"]) == ("marks", True)
    assert [claim["holds"] for claim in verdict["claims"]] == [True, True]
    [small] = verdict["numbers"]["dctcp"]["fct_us_small_mean"]
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
    assert read_command(replace(EXPERIMENT, seeds=20), ["--seeds", "3"]).seeds == (1, 2, 3)


def test_read_command__the_fabric_where_there_is_a_choice(capsys: pytest.CaptureFixture[str]) -> None:
    both = replace(EXPERIMENT, on=(TESTBED, SIMULATOR))
    assert both.needs_root
    assert read_command(both, []).on == TESTBED
    assert read_command(both, ["--on", "simulator"]).on == SIMULATOR
    with pytest.raises(SystemExit):
        read_command(EXPERIMENT, ["--on", "simulator"])
    assert "unrecognized arguments" in capsys.readouterr().err


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


# Every name works.


ROOT = README.parents[1]
WORDS = {"scheme_order": ["docs", "experiments"], "sluice_conditions": ["--flows", "50"]}
"""Arguments that an experiment needs, or that make its plan short."""


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_name__has_an_experiment_a_page_and_a_quick_mode(name: str) -> None:
    experiment = load(name)
    assert experiment.claim.endswith(".")
    assert len(experiment.claim) <= 100
    text = (README.parent / page(experiment)).read_text()
    assert name in text or re.sub(r"\d+$", "", name) in text
    words = WORDS.get(name, [])
    quick, whole = (read_command(experiment, [*flags, *words]) for flags in (["--quick"], []))
    options = {**vars(quick), **quick.options}
    assert set(experiment.quick) <= set(options), "a quick mode sets options that there are"
    assert experiment.quick or experiment.minutes <= 2
    assert quick.quick
    assert not whole.quick


@pytest.mark.usefixtures("no_plugin_stays")
@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_name__plans_scenarios_in_folders_of_their_own(name: str, tmp_path: Path) -> None:
    experiment = load(name)
    plan = getattr(experiment.runner, "plan", None)
    if plan is None:
        assert isinstance(experiment.runner, Script), "what makes no plan measures by itself"
        return
    given = read_command(experiment, ["--quick", "--out", str(tmp_path), *WORDS.get(name, [])])
    for group in plan(given).values():
        assert group.points
        assert len({point.name for point in group.points}) == len(group.points)
        for point in {point.scheme: point for point in group.points}.values():
            scenario_with(point.document)


def test_docs__name_experiments_that_there_are() -> None:
    texts = [path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").glob("**/*.md"))]
    named = {name for text in texts for name in re.findall(r"make experiment NAME=([a-z]\w*)", text)}
    assert named
    assert named <= set(EXPERIMENTS)


@pytest.mark.parametrize("library", ["matplotlib", "scipy"])
def test_main__without_a_library_names_the_extra(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.runtime.extras.find_spec", lambda name: name != library or None)
    message = rf"^python -m experiments needs {library}, .*\[experiments\]'$"
    with pytest.raises(EnvironmentLacking, match=message):
        experiments_main([])


def test_main__claims_of_finished_experiments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "verdict.json").write_text(
        '{"experiment": "x", "claims": [{"what": "a", "paper": "b", "measured": "c", "holds": false}]}'
    )
    assert experiments_main(["--claims", str(tmp_path)]) == 0
    assert "| x | a | b | c | **no** |" in capsys.readouterr().out
