# SPDX-License-Identifier: Apache-2.0
"""A run on the testbed that a closed terminal ends leaves a bundle, and nothing else."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from sluice.runtime.wait import wait_until

SCENARIO = """
name = "long"
seed = 1
[fabric]
topology = "single"
hosts = 2
host_rate = "5Mbit"
buffer = "60KB"
[scheme]
name = "tcp"
[workload]
sizes = "web-search-bytes"
pattern = "all-to-all"
load = 0.3
scale = 0.02
flows = 5000
"""


def services(pid: int) -> set[str]:
    """The processes that a run has started, and that go on running."""
    found: list[set[str]] = [set(), set()]
    for pids in found:
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):  # the thread has ended
                pids.update(path.read_text().split())
        time.sleep(0.5)
    return found[0] & found[1]


def test_sighup_of_a_run__a_bundle_that_says_interrupted_and_nothing_left(tmp_path: Path) -> None:
    (tmp_path / "long.toml").write_text(SCENARIO)
    out = tmp_path / "out"
    temporary = Path(tempfile.mkdtemp())  # a short path, because Unix sockets are made there
    argv = ["env", "--default-signal=HUP", f"TMPDIR={temporary}", sys.executable, "-m", "sluice", "run"]
    argv += [str(tmp_path / "long.toml"), "--on", "testbed", "--out", str(out)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        spool = out / "run" / "spool" / "h1" / "spool"
        wait_until(
            lambda: (
                process.poll() is not None or any(path.stat().st_size for path in spool.glob("segment-*"))
            ),
            "flows have ended",
            timeout_s=300,
        )
        before = services(process.pid)
        os.kill(process.pid, signal.SIGHUP)
        wait_until(lambda: not before <= services(process.pid), "the run has begun to end")
        os.kill(process.pid, signal.SIGTERM)  # someone is impatient
        said, _ = process.communicate(timeout=300)
    assert process.returncode == 130, said
    assert "stopped: interrupted by SIGHUP" in said
    summary = json.loads((out / "summary.json").read_text())
    assert summary["valid"]["reasons"][0].startswith("interrupted by SIGHUP")
    assert summary["fct_us"]["all"]["n"] > 0
    temporary.rmdir()  # the folder of the token is gone
