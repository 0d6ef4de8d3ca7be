# SPDX-License-Identifier: Apache-2.0
"""The job on the node: `python -m sluice.staging.node` reads an order and runs its points, one after the other.

The folder of the job lies in $TMPDIR and ends with it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from sluice.runtime.process import spawn
from sluice.staging.order import lay_out
from sluice.staging.stream import Message, file_messages, to_line
from sluice.sweep_folder import POINT_LOG, STATUS

STATUS_EVERY_S = 1.0


def main() -> int:
    """Return 0 if all points have ended well."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the folder is deleted
    order = json.load(sys.stdin)
    with TemporaryDirectory(prefix="sluice-") as name:
        folder = Path(name)
        environment = lay_out(order, folder)
        codes = [_run(folder, point, environment) for point in order["points"]]
    return 1 if any(codes) else 0


def _run(folder: Path, point: str, environment: dict[str, str]) -> int:
    """Run a point, tell its states meanwhile, and send its files. Returns its exit code."""
    (folder / point).mkdir(parents=True)
    argv = [sys.executable, "-m", "sluice.sweep.point", str(folder), point]
    process = spawn(argv, log_file=folder / point / POINT_LOG, env=environment)
    told = None
    while not _ended(process):
        told = _tell(folder, point, told)
    for path in sorted((folder / point).iterdir()):
        for message in file_messages(point, path):
            _say(message)
    _tell(folder, point, told)  # "done" comes after the files, so that no one looks for them too early
    _say(Message(point, code=process.returncode))
    return int(process.returncode)


def _ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(STATUS_EVERY_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _tell(folder: Path, point: str, told: str | None) -> str | None:
    """Send the status of a point if it has changed, and return the one that was sent last."""
    path = folder / STATUS / f"{point}.json"
    if not path.exists() or (text := path.read_text()) == told:
        return told
    _say(Message(point, status=text))
    return text


def _say(message: Message) -> None:
    sys.stdout.buffer.write(to_line(message))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
