# SPDX-License-Identifier: Apache-2.0
"""A run on the testbed that a closed terminal ends leaves a bundle, and nothing else."""

import json
import os
import signal
import subprocess
import sys
import tempfile
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


def is_pending(pid: int, number: int) -> bool:
    """Two signals that wait together have no order."""
    status = Path(f"/proc/{pid}/status").read_text()
    pending = next(line for line in status.splitlines() if line.startswith("ShdPnd:"))
    return bool(int(pending.split()[1], 16) >> (number - 1) & 1)


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
        os.kill(process.pid, signal.SIGHUP)
        wait_until(lambda: not is_pending(process.pid, signal.SIGHUP), "the signal has come")
        os.kill(process.pid, signal.SIGTERM)  # someone is impatient
        said, _ = process.communicate(timeout=300)
    assert process.returncode == 130, said
    assert "stopped: interrupted by SIGHUP" in said
    summary = json.loads((out / "summary.json").read_text())
    assert summary["valid"]["reasons"][0].startswith("interrupted by SIGHUP")
    assert summary["fct_us"]["all"]["n"] > 0
    temporary.rmdir()  # the folder of the token is gone
