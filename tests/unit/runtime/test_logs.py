# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from sluice.runtime.process import keep_short, spawn, stop
from sluice.runtime.wait import wait_until


def test_a_log_is_cut_while_its_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "noisy.log"
    process = spawn(["sh", "-c", "while echo a line of a log; do sleep 0.001; done"], log_file=path)
    try:
        wait_until(lambda: path.exists() and path.stat().st_size > 2000, "it writes")
        keep_short(tmp_path, most_bytes=1000)
        assert (tmp_path / "noisy.log.1").read_text().startswith("a line of a log\n")
        wait_until(lambda: path.stat().st_size > 0, "it writes again, at the begin")
        assert path.read_bytes().startswith(b"a line of a log\n"), "no hole"
    finally:
        stop(process)


def test_short_logs_stay(tmp_path: Path) -> None:
    (tmp_path / "quiet.log").write_text("a line\n")
    keep_short(tmp_path, most_bytes=1000)
    assert [path.name for path in tmp_path.iterdir()] == ["quiet.log"]
