# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.commands import compare, demo, run
from sluice.policy.errors import SluiceError
from sluice.report.repeat import repeat_report, repeat_run, repeat_runs
from sluice.report.runs import Run, find_runs, variants
from sluice.runs.files import read_document, scenario_from_file
from tests.unit.sluice.bundles import bundle, document, flow


@pytest.fixture
def made(tmp_path: Path) -> Run:
    (found,) = find_runs([bundle(tmp_path / "a b", document(), [flow(1, 1000, 100.0)])])
    return found


def test_repeat_run__the_command_takes_the_bundles_scenario(made: Run) -> None:
    words = shlex.split(repeat_run(made))
    given = run.parser().parse_args(words[2:])
    assert words[:2] == ["sluice", "run"]
    assert (given.scenario, given.on, str(given.out)) == (made.folder / "scenario.json", "simulator", "NEW")
    assert scenario_from_file(given.scenario)[1] == made.document


def test_repeat_run__a_demonstration_says_how_it_was_started(made: Run) -> None:
    words = ["sluice", "demo", "--on", "simulator", "--tour", "--tour-seconds", "6"]
    command = repeat_run(replace(made, meta={**made.meta, "command": words}))
    given = demo.parser().parse_args(shlex.split(command)[2:])
    assert (given.scenario, given.on, given.tour, given.tour_seconds) == (
        made.folder / "scenario.json",
        "simulator",
        True,
        6.0,
    )


def test_repeat_run__names_the_files_of_plugins_but_not_installed_ones(made: Run) -> None:
    plugins = {"/x/mine.py": "00", "entry point ring = mine:ring": "00"}
    words = shlex.split(repeat_run(replace(made, meta={**made.meta, "plugins": plugins})))
    assert words[words.index("--plugin") + 1] == "/x/mine.py"
    assert words.count("--plugin") == 1


def test_repeat_runs__one_command_for_each_variant(tmp_path: Path) -> None:
    for scheme in ("dctcp", "pias"):
        for seed in (1, 2, 3):
            bundle(tmp_path / f"{scheme}-{seed}", document(scheme, seed), [flow(1, 1000, 100.0)])
    found = repeat_runs(variants(find_runs([tmp_path])))
    assert [(command.split("/")[-2], more) for command, more in found] == [("dctcp-1", 2), ("pias-1", 2)]


def test_repeat_report__is_the_command_that_made_it(tmp_path: Path) -> None:
    words = shlex.split(repeat_report([tmp_path / "a b"], "pias", tmp_path / "x.html"))
    given = compare.parser().parse_args(words[2:])
    assert (given.folders, given.baseline, given.out) == ([tmp_path / "a b"], "pias", tmp_path / "x.html")


@pytest.mark.parametrize(
    ("text", "message"), [("{", "not JSON"), ("[" * 100_000, "not JSON"), ("[]", "must be an object")]
)
def test_read_document__says_what_is_wrong_with_a_json_file(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(text)
    with pytest.raises(SluiceError, match=rf"scenario\.json: {message}"):
        read_document(path)
