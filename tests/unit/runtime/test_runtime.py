# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.runtime.command import CommandFailed, run
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import PATIENCE, patient, wait_until


def test_run__returns_standard_output() -> None:
    assert run(["printf", "%s", "a b"]) == "a b"


def test_run__raises_with_the_commands_output() -> None:
    with pytest.raises(CommandFailed, match="no-such-file") as caught:
        run(["cat", "/no-such-file"])
    assert caught.value.returncode == 1
    assert "$ cat /no-such-file" in str(caught.value)


def test_run__passes_input() -> None:
    assert run(["cat"], stdin="text") == "text"


def test_stop__kills_a_process_that_ignores_sigterm(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"trap '' TERM; touch {ready}; while :; do sleep 0.1; done"
    process = spawn(["sh", "-c", script])
    wait_until(ready.exists, "the child ignores SIGTERM")
    assert stop(process, grace_s=0.2) == -signal.SIGKILL
    assert stop(process) == -signal.SIGKILL


def test_spawn__child_dies_with_a_killed_parent(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = (
        "import pathlib, time; from sluice.runtime.process import spawn;"
        f"p = spawn(['sleep', '600']); pathlib.Path({str(pid_file)!r}).write_text(str(p.pid)); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script])
    wait_until(lambda: pid_file.exists() and pid_file.read_text(), "the parent has a child")
    child = int(pid_file.read_text())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    wait_until(lambda: not _runs(child), "the child is gone")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_spawn__appends_output_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for word in ("one", "two"):
        spawn(["echo", word], log_file=log).wait()
    assert log.read_text() == "one\ntwo\n"


def test_wait_until__names_the_condition() -> None:
    with pytest.raises(TimeoutError, match="the moon rises"):
        wait_until(lambda: False, "the moon rises", timeout_s=0.05)


def test_wait_until__returns_the_value() -> None:
    values = iter([0, 0, 7])
    assert wait_until(lambda: next(values), "seven") == 7


def test_patience_multiplies_every_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATIENCE, "15")
    assert patient(10) == 150
    monkeypatch.delenv(PATIENCE)
    assert patient(10) == 10
