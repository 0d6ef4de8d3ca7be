# SPDX-License-Identifier: Apache-2.0
"""One job, on the machine that submits it: `python -m sluice.staging.submit DIR JOB`.

It gives the job the points that are missing, and keeps each bundle as soon as it is complete. So a lost job loses only
the point that ran.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sluice.runtime.process import die_with_parent, stop
from sluice.staging.order import make_order
from sluice.staging.stream import Message, from_line
from sluice.sweep_folder import CONFIG, JOBS, POINT_LOG, STAGED, STATUS, SUMMARY

GRACE_S = 10.0
"""How long srun may take to end its job."""


def main(folder: Path, job: str) -> int:
    """Return 0 if every point of the job has a bundle."""
    die_with_parent()
    config = json.loads((folder / CONFIG).read_text())
    missing = _missing(folder, config["jobs"][job]["points"])
    if missing:
        code, ended = _run(folder, job, config, missing)
        for name in _missing(folder, missing):
            _explain(folder, job, name, None if name in ended else code)
    if _missing(folder, missing):
        return 1
    (folder / JOBS / f"{job}.sent").touch()
    return 0


def _missing(folder: Path, names: Sequence[str]) -> list[str]:
    return [name for name in names if not (folder / name / SUMMARY).exists()]


def _run(folder: Path, job: str, config: dict[str, Any], missing: Sequence[str]) -> tuple[int, set[str]]:
    """Run the job and receive its points. Returns the exit code of srun, and the points that have ended."""
    staged = folder / STAGED / job
    shutil.rmtree(staged, ignore_errors=True)
    order = json.dumps(make_order(config, job, missing)).encode()
    argv = [*config["jobs"][job]["srun"], sys.executable, "-m", "sluice.staging.node"]
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C reaches only this process, which then ends srun in order
        preexec_fn=die_with_parent,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        _give(process.stdin, order)
        ended = receive(process.stdout, folder, staged, missing)
        return process.wait(), ended
    finally:
        stop(process, grace_s=GRACE_S)


def _give(stdin: Any, order: bytes) -> None:
    try:
        stdin.write(order)
        stdin.close()
    except BrokenPipeError:  # srun says why, on the standard error
        return


def receive(lines: Iterable[bytes], folder: Path, staged: Path, points: Sequence[str]) -> set[str]:
    """Keep states and bundles of these points, and return those that have ended.

    Lines of someone else go to the standard error.
    """
    ended = set()
    for line in lines:
        message = from_line(line)
        if message is None or message.point not in points:
            print(line.decode(errors="replace"), end="", file=sys.stderr, flush=True)
            continue
        _take(message, folder, staged / message.point)
        if message.code is not None:
            ended.add(message.point)
    return ended


def _take(message: Message, folder: Path, staged: Path) -> None:
    if message.status is not None:
        _replace(folder / STATUS / f"{message.point}.json", message.status)
    elif message.file is not None:
        staged.mkdir(parents=True, exist_ok=True)
        with (staged / Path(message.file).name).open("ab") as target:
            target.write(message.content)
    elif staged.exists():
        final = folder / message.point
        shutil.rmtree(final, ignore_errors=True)
        final.parent.mkdir(parents=True, exist_ok=True)
        staged.replace(final)


def _replace(path: Path, text: str) -> None:
    """Replace a file at once, so that a reader sees the old or the new text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)


def _explain(folder: Path, job: str, name: str, code: int | None) -> None:
    """Say why a point has no bundle. With `code`, its job ended before the point, which has sent no log."""
    log = folder / name / POINT_LOG
    if code is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(
            f"its job ended with code {code} before the point did; see {folder / JOBS / job}.log\n"
        )
    print(f"failed: {name}; see {log}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2]))
