# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.prose_mirror.command import main

ROOT = Path(__file__).parents[3]
LONG = "word " * 30


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "good.md").write_text("It is short.\n")
    (tmp_path / "docs" / "bad.md").write_text(f"Nobody waits.\n{LONG.strip()}.\n")
    (tmp_path / "code.py").write_text("# It shall wait.\n")
    return tmp_path


def output(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> str:
    assert main([str(word) for word in argv]) == 0
    return capsys.readouterr().out


def test_the_worst_file_is_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "--root", folder, "--worst", "2")
    files = text.split("the worst 2 of 3 files")[1].split("word list")[0]
    assert [line.split()[0] for line in files.splitlines()[1:] if line] == ["docs/bad.md", "code.py"]


def test_json_has_the_figures_of_all_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(output(capsys, "--root", folder, "--json"))
    figures = {"sentences": 2, "median": 2, "p95": 30, "longest": 30, "long": 1, "words": 1}
    assert document["files"]["docs/bad.md"] == {**figures, "by_entry": {"nobody": 1}}
    assert document["totals"]["all"]["words"] == 2
    assert document["totals"]["all comment"]["by_entry"] == {"shall": 1}


def test_paths_choose_files_and_folders(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(output(capsys, "--root", folder, "--json", "docs", "good.md"))
    assert sorted(document["files"]) == ["docs/bad.md", "good.md"]


def test_sentences_and_words_of_one_file_have_their_lines(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert output(capsys, "--root", folder, "--sentences", "docs/bad.md") == (
        f"docs/bad.md:2: 30 words: {LONG.strip()}.\n"
    )
    assert output(capsys, "--root", folder, "--words", "code.py") == "code.py:1: shall → must\n"


def test_of_a_work_tree_only_tracked_files_are_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run(["git", "init", "-q", folder], check=True)
    subprocess.run(["git", "-C", folder, "add", "good.md"], check=True)
    assert list(json.loads(output(capsys, "--root", folder, "--json"))["files"]) == ["good.md"]


def test_an_empty_folder_has_figures_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "the worst 0 of 0 files" in output(capsys, "--root", tmp_path)


def test_a_file_that_cannot_be_read_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "broken.py").write_text("def :\n")
    assert main(["--root", str(folder)]) == 2
    assert "broken.py" in capsys.readouterr().err


def test_the_script_runs_from_any_folder(folder: Path) -> None:
    argv = [sys.executable, str(ROOT / "tools" / "prose"), "--words", "code.py"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout == "code.py:1: shall → must\n"
