# SPDX-License-Identifier: Apache-2.0
"""The table of experiments/README.md agrees with the experiments, and every name works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments.__main__ import EXPERIMENTS, load, load_all, main
from experiments.kit.catalogue import README, listing, with_table
from experiments.kit.experiment import Script
from experiments.kit.main import read_command
from experiments.kit.schemes import schemes_of_testbed
from sluice.policy.errors import SluiceError
from sluice.policy.schemes import SCHEMES
from sluice.runs.files import scenario_with

ROOT = README.parents[1]
WORDS = {"scheme_order": ["docs", "experiments"]}
"""Arguments that an experiment needs."""


def test_readme__is_fresh() -> None:
    text = README.read_text()
    assert with_table(text, load_all()) == text, "stale: run `python -m experiments --table`"


def test_with_table__says_where_the_table_goes() -> None:
    with pytest.raises(SluiceError, match="are missing; add them where the table belongs"):
        with_table("# Experiments\n", load_all())


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_name__is_an_experiment_of_that_name(name: str) -> None:
    experiment = load(name)
    assert experiment.name == name
    assert experiment.minutes > 0
    assert experiment.claim.endswith(".")
    assert len(experiment.claim) <= 100
    assert experiment.default_out == Path("results") / name


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_name__has_a_quick_mode(name: str) -> None:
    experiment = load(name)
    words = WORDS.get(name, [])
    quick, whole = (read_command(experiment, [*flags, *words]) for flags in (["--quick"], []))
    options = {**vars(quick), **quick.options}
    assert set(experiment.quick) <= set(options), "a quick mode sets options that there are"
    assert experiment.quick or experiment.minutes <= 2
    assert quick.quick
    assert not whole.quick


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_name__has_its_folders_readme_which_names_it(name: str) -> None:
    folder = "/".join(EXPERIMENTS[name].split(".")[:2])
    text = (README.parent / folder / "README.md").read_text()
    assert name in text or re.sub(r"\d+$", "", name) in text


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


def test_listing__has_every_name() -> None:
    text = "\n".join(listing(load_all()))
    assert all(f"  {name} " in text for name in EXPERIMENTS)


def test_main__without_a_name_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "python -m experiments NAME --quick" in capsys.readouterr().out


def test_main__an_unknown_name_is_told_the_known_ones() -> None:
    with pytest.raises(
        SluiceError, match="there is no experiment fig99; the names are threshold_convergence, "
    ):
        main(["fig99"])


def test_main__claims_of_finished_experiments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "verdict.json").write_text(
        '{"experiment": "x", "claims": [{"what": "a", "paper": "b", "measured": "c", "holds": false}]}'
    )
    assert main(["--claims", str(tmp_path)]) == 0
    assert "| x | a | b | c | **no** |" in capsys.readouterr().out


def test_schemes_of_testbed__all_but_those_that_no_switch_can_carry_out() -> None:
    assert set(SCHEMES) - set(schemes_of_testbed()) == {"d3", "pfabric"}
