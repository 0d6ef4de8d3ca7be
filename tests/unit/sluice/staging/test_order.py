# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sluice.policy.errors import SluiceError
from sluice.staging.order import PLUGINS, lay_out, make_order, named_files


def config(cwd: Path, *files: str) -> dict[str, Any]:
    points = {name: {"document": {"seed": seed}} for seed, name in enumerate(("a/seed-01", "b/seed-01"))}
    return {"on": "simulator", "cwd": str(cwd), "points": points, "files": list(files)}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "sizes.cdf").write_text("0 0\n1 1\n")
    (tmp_path / "beside.cdf").write_text("0 0\n1 1\n")
    monkeypatch.chdir(folder)
    return folder


def test_named_files__finds_them_at_any_depth(here: Path) -> None:
    document = {"workload": {"shift": [{"sizes": "data/sizes.cdf"}], "pattern": "all-to-all"}, "name": "data"}
    assert named_files([document, {"name": "x" * 5000}]) == ["data/sizes.cdf"]


@pytest.mark.parametrize("where", ["../beside.cdf", "absolute"])
def test_named_files__refuses_what_a_node_would_not_find(here: Path, where: str) -> None:
    text = str(here / "data" / "sizes.cdf") if where == "absolute" else where
    with pytest.raises(
        SluiceError, match=r"--staged: the scenario names .*below the folder in which you start"
    ):
        named_files([{"workload": {"sizes": text}}])


def test_order__a_node_has_what_the_points_need(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = here / "mine.py"
    plugin.write_text("# a plugin\n")
    monkeypatch.setenv(PLUGINS, str(plugin))
    order = json.loads(json.dumps(make_order(config(here, "data/sizes.cdf"), "job-0000", ["b/seed-01"])))
    node = tmp_path / "node"
    node.mkdir()
    environment = lay_out(order, node)
    laid = json.loads((node / "sweep.json").read_text())
    assert (laid["on"], list(laid["points"])) == ("simulator", ["b/seed-01"])
    assert (Path(laid["cwd"]) / "data" / "sizes.cdf").read_text() == "0 0\n1 1\n"
    (sent,) = map(Path, environment[PLUGINS].split(":"))
    assert (sent.name, sent.read_text(), sent.is_relative_to(node)) == ("mine.py", "# a plugin\n", True)


def test_order__no_plugin_is_no_variable_with_a_path(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PLUGINS, raising=False)
    node = tmp_path / "node"
    node.mkdir()
    assert lay_out(make_order(config(here), "job-0000", []), node) == {PLUGINS: ""}
