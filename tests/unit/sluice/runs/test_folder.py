# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sluice.policy.errors import FieldError
from sluice.runs.folder import bundles, describe, entries, entry_of, read_plain
from sluice.runs.progress import progress_file
from tests.kit.bundles import sweep

KILLED_STATE = {"pid": 1, "born": 1, "name": "", "scheme": "", "on": "simulator", "started_at": 1.0}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a sweep of two points, a run that lives, and a bundle outside that links lead to."""
    root = tmp_path / "runs"
    sweep(root / "deep" / "sweep", ["dctcp", "pias"], [0.5], [1])
    outside = sweep(tmp_path / "outside", ["tcp"], [0.5], [1])
    (root / "link").symlink_to(outside)
    (root / "linked").mkdir()
    (root / "linked" / "scenario.json").symlink_to("/etc/passwd")
    return root


def test_entries__a_sweep_is_one_entry_and_links_are_not_followed(root: Path) -> None:
    assert [(entry.name, entry.kind) for entry in entries(root)] == [("deep/sweep", "sweep")]


def test_describe__a_sweep_counts_its_points_and_a_run_has_its_figures(root: Path) -> None:
    (root / "deep" / "sweep" / "sweep.json").unlink()  # the points are bundles of their own now
    documents = [describe(entry) for entry in entries(root)]
    assert {document["name"] for document in documents} == {
        "deep/sweep/dctcp/load-0.5/seed-01",
        "deep/sweep/pias/load-0.5/seed-01",
    }
    (first, _) = documents
    assert first["state"] == "done"
    assert first["figures"]["classes"]["all"]["n"] > 0


def test_describe__a_run_is_under_way_only_while_its_process_lives(root: Path) -> None:
    with progress_file(root / "a", name="x", scheme="pias", on="simulator"):
        assert describe(entry_of(root, "a"))["state"] == "running"
        kept = json.loads((root / "a" / "progress.json").read_text())
    (root / "a" / "progress.json").write_text(json.dumps({**kept, "born": 1}))
    assert describe(entry_of(root, "a"))["state"] == "lost"


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../outside",
        "deep/../../outside",
        "/etc",
        "link",
        "linked",
        "deep",
        "deep//sweep",
        "a\0b",
        "x" * 999,
    ],
)
def test_entry_of__no_name_leads_out_of_the_folder(root: Path, name: str) -> None:
    with pytest.raises(FieldError, match="no run"):
        entry_of(root, name)


def test_bundles__one_with_a_link_among_its_files_is_left_out(root: Path) -> None:
    entry = entry_of(root, "deep/sweep")
    first, second = bundles(entry)
    (first / "summary.json").rename(root / "elsewhere.json")
    (first / "summary.json").symlink_to(root / "elsewhere.json")
    assert bundles(entry) == [second]


def test_sweep__an_interrupted_point_is_not_finished(root: Path) -> None:
    entry = entry_of(root, "deep/sweep")
    first, second = bundles(entry)
    names = {str(path.relative_to(entry.path)): {"scheme": "x"} for path in (first, second)}
    (entry.path / "sweep.json").write_text(json.dumps({"on": "simulator", "points": names}))
    assert (describe(entry)["state"], describe(entry)["finished"]) == ("done", 2)
    (entry.path / "progress.json").write_text(json.dumps(KILLED_STATE))
    assert describe(entry)["reason"] == ""  # its last point had ended
    meta = json.loads((first / "meta.json").read_text())
    (first / "meta.json").write_text(json.dumps({**meta, "interrupted": True}))
    assert (describe(entry)["state"], describe(entry)["finished"]) == ("partial", 1)
    assert "killed?" in describe(entry)["reason"]
    assert bundles(entry) == [second]


def test_read_plain__neither_links_nor_pipes_nor_what_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "text").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    assert read_plain(tmp_path / "file") == {}
    assert [read_plain(tmp_path / name) for name in ("link", "text", "pipe", "missing")] == [None] * 4
