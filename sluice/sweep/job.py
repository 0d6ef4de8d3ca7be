# SPDX-License-Identifier: Apache-2.0
"""One job of a cluster: `python -m sluice.sweep.job DIR NAME` runs the points of the job that are missing.

A second job with the same point waits for the first one, and then finds it finished. This happens when a sweep
continues while jobs of its former call still run, and when the cluster takes a living node for lost.
"""

import fcntl
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sluice.runs.bundle import is_complete
from sluice.runtime.process import die_with_parent
from sluice.sweep.points import CONFIG, POINT_LOG

LOCKS = ".locks"


def main(folder: Path, job: str) -> int:
    """Return 0 if every point of the job has a bundle."""
    config = json.loads((folder / CONFIG).read_text())
    failed = []
    for name in config["jobs"][job]["points"]:
        with _alone(folder, name):
            if is_complete(folder / name, config["points"][name]["document"]):
                continue
            (folder / name).mkdir(parents=True, exist_ok=True)
            with (folder / name / POINT_LOG).open("w") as log:
                argv = [sys.executable, "-m", "sluice.sweep.point", str(folder), name]
                done = subprocess.run(argv, stdout=log, stderr=log, check=False, preexec_fn=die_with_parent)
            if done.returncode:
                failed.append(name)
    for name in failed:
        print(f"failed: {name}; see {folder / name / POINT_LOG}", file=sys.stderr)
    return 1 if failed else 0


@contextmanager
def _alone(folder: Path, name: str) -> Iterator[None]:
    """Hold the lock of a point. The file system releases it if this process or its node dies."""
    path = folder / LOCKS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2]))
