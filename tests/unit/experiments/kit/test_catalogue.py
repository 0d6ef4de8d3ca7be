# SPDX-License-Identifier: Apache-2.0
"""The table of experiments/README.md agrees with the experiments, and every name works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments.__main__ import EXPERIMENTS, load, load_all, main
from experiments.kit.main import README, listing, read_command, with_table
from sluice.policy.errors import SluiceError

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
