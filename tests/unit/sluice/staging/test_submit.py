# SPDX-License-Identifier: Apache-2.0
"""One staged job, with a program of this test in the place of srun and of the node."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.staging import submit
from sluice.staging.stream import Message, file_messages, to_line
from sluice.sweep_folder import CONFIG, JOBS, POINT_LOG, STAGED, STATUS, SUMMARY

NAMES = ["a/seed-01", "b/seed-01"]


@pytest.fixture(autouse=True)
def parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test lives on after its parent."""
    monkeypatch.setattr(submit, "die_with_parent", lambda: None)


def job(folder: Path, lines: list[bytes], code: int = 0) -> int:
    """Run the job. Its node prints these lines, and ends with this code."""
    (folder / JOBS).mkdir(exist_ok=True)
    (folder / "said").write_bytes(b"".join(lines))
    shell = f"cat > {folder}/order; cat {folder}/said; exit {code}"
    entry = {"points": NAMES, "srun": ["sh", "-c", shell]}
    points: dict[str, object] = {name: {"document": {}} for name in NAMES}
    config = {
        "on": "simulator",
        "cwd": str(folder),
        "files": [],
        "points": points,
        "jobs": {"job-0000": entry},
    }
    (folder / CONFIG).write_text(json.dumps(config))
    return submit.main(folder, "job-0000")


def bundle(folder: Path, name: str) -> list[bytes]:
    """The lines that bring a bundle."""
    source = folder / "source"
    source.mkdir(exist_ok=True)
    (source / SUMMARY).write_text(f'"{name}"')
    (source / POINT_LOG).write_text("")
    files = [message for path in sorted(source.iterdir()) for message in file_messages(name, path)]
    return [to_line(message) for message in [*files, Message(name, status='"done"'), Message(name, code=0)]]


def test_a_job__keeps_bundles_and_states_beside_the_noise_of_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [b"module loaded\n", *bundle(tmp_path, NAMES[0]), *bundle(tmp_path, NAMES[1])]
    assert job(tmp_path, lines) == 0
    assert [json.loads((tmp_path / name / SUMMARY).read_text()) for name in NAMES] == NAMES
    assert (tmp_path / STATUS / f"{NAMES[0]}.json").read_text() == '"done"'
    assert (tmp_path / JOBS / "job-0000.sent").exists()
    assert "module loaded" in capsys.readouterr().err
    assert sorted(json.loads((tmp_path / "order").read_text())["points"]) == NAMES


def test_a_lost_job__keeps_what_was_complete_and_the_next_asks_for_the_rest(tmp_path: Path) -> None:
    half = [line for line in bundle(tmp_path, NAMES[1]) if b'"code"' not in line]
    assert job(tmp_path, [*bundle(tmp_path, NAMES[0]), *half], code=9) == 1
    assert (tmp_path / NAMES[0] / SUMMARY).exists()
    assert not (tmp_path / NAMES[1] / SUMMARY).exists()
    assert "its job ended with code 9 before the point did" in (tmp_path / NAMES[1] / POINT_LOG).read_text()
    assert not (tmp_path / JOBS / "job-0000.sent").exists()
    assert job(tmp_path, bundle(tmp_path, NAMES[1])) == 0
    assert list(json.loads((tmp_path / "order").read_text())["points"]) == NAMES[1:]


def test_a_failed_point__its_own_log_says_why(tmp_path: Path) -> None:
    log = tmp_path / "sent" / POINT_LOG
    log.parent.mkdir()
    log.write_text("sluice: no such workload\n")
    failed = [*map(to_line, file_messages(NAMES[1], log)), to_line(Message(NAMES[1], code=2))]
    assert job(tmp_path, [*bundle(tmp_path, NAMES[0]), *failed], code=1) == 1
    assert (tmp_path / NAMES[1] / POINT_LOG).read_text() == "sluice: no such workload\n"


def test_receive__writes_only_for_the_points_of_the_job(tmp_path: Path) -> None:
    lines = [to_line(Message("../x", file=SUMMARY, piece="e30=")), to_line(Message("../x", code=0))]
    lines += [to_line(Message(NAMES[0], file="../../x", piece="e30="))]
    folder = tmp_path / "sweep"
    assert submit.receive(lines, folder, folder / STAGED / "job-0000", NAMES) == set()
    found = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert found == [Path("sweep") / STAGED / "job-0000" / NAMES[0] / "x"]


def test_the_processes_of_a_job_are_small() -> None:
    """A sweep has as many of them as jobs."""
    script = "import sluice.staging.submit, sluice.staging.node, sys; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
