# SPDX-License-Identifier: Apache-2.0
"""The comparison with the core of another commit: its files, its medians, its words."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.bench import against
from experiments.bench.against import Comparison, Core, compare, entry_of, unpack
from sluice.policy.errors import SluiceError


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of two commits. The second one has no benchmark."""
    repository = tmp_path / "clone"
    repository.mkdir()

    def git(*words: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *words], cwd=repository, check=True, capture_output=True)

    git("init", "--quiet")
    (repository / "experiments").mkdir()
    (repository / "experiments" / "bench_simulator.py").write_text("first\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    git("tag", "early")
    git("rm", "--quiet", "-r", "experiments")
    (repository / "file").write_text("second\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "second")
    monkeypatch.setattr(against, "ROOT", repository)
    return repository


def test_unpack__has_the_files_of_that_commit_and_leaves_the_clone_as_it_is(
    clone: Path, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    unpack("early", tree)
    assert (tree / "experiments" / "bench_simulator.py").read_text() == "first\n"
    assert not (tree / "file").exists()
    assert entry_of(tree) == "experiments.bench_simulator"
    assert {found.name for found in tmp_path.iterdir()} == {"clone", "tree"}
    status = subprocess.run(
        ["git", "status", "--short"], cwd=clone, capture_output=True, text=True, check=True
    )
    worktrees = subprocess.run(
        ["git", "worktree", "list"], cwd=clone, capture_output=True, text=True, check=True
    )
    assert not status.stdout
    assert len(worktrees.stdout.splitlines()) == 1


def test_entry_of__names_what_a_commit_without_a_benchmark_lacks(clone: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    unpack("HEAD", tree)
    with pytest.raises(SluiceError, match=r"has none of experiments\.bench\.simulator"):
        entry_of(tree)


def test_main__says_what_is_missing_and_leaves_nothing(
    clone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert against.main(["missing"]) == 1
    assert "missing: no such commit" in capsys.readouterr().err
    assert against.main(["HEAD"]) == 1
    assert "has none of" in capsys.readouterr().err
    assert not list(temporary.iterdir())


def test_compare__takes_medians_and_runs_the_cores_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    seconds: dict[str, Iterator[float]] = {
        "old": iter([3.0, 9.0, 4.0]),
        "plain": iter([2.0, 1.0, 8.0]),
        "parts": iter([1.0, 1.0, 1.0]),
    }
    hops = {"old": 10**9, "plain": 10**9, "parts": 10**9 + 1}

    def run(core: Core, flows: int, leaves: int, hosts_per_leaf: int) -> tuple[float, int]:
        assert (flows, leaves, hosts_per_leaf) == (7, 9, 16)
        order.append(core.name)
        return next(seconds[core.name]), hops[core.name]

    monkeypatch.setattr(Core, "run", run)
    old, plain, parts = (Core(name, Path(), "") for name in seconds)
    found = list(compare(old, [plain, parts], hosts=144, flows=7, rounds=3))
    assert order == ["old", "plain", "parts"] * 3
    assert [(one.name, one.other_ns, one.ours_ns) for one in found] == [
        ("plain", 4.0, 2.0),
        ("parts", 4.0, pytest.approx(1.0)),
    ]
    assert [one.same_work for one in found] == [True, False]


def test_comparison__says_the_ratio_and_whether_the_work_differs() -> None:
    assert "ratio 1.40" in str(Comparison(144, "plain", 70.0, 50.0, same_work=True))
    assert "packet-hops differ" in str(Comparison(144, "plain", 70.0, 50.0, same_work=False))
