# SPDX-License-Identifier: Apache-2.0
"""Waiting, commands, TOML files, identities, and names of files."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.runtime.command import CommandFailed, run
from sluice.runtime.identity import has_ended, my_identity
from sluice.runtime.process import spawn, stop
from sluice.runtime.toml import NotToml, can_name_a_file, exists, is_file, parse_toml, read_toml
from sluice.runtime.wait import wait_until


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


DEEP, LONG = "a = " + "[" * 5000, "a = " + "9" * 5000


@pytest.mark.parametrize(
    ("text", "problem"), [("a", "Expected '='"), (DEEP, "nested too deeply"), (LONG, "5000 digits")]
)
def test_parse__anything_else_is_no_toml(text: str, problem: str) -> None:
    with pytest.raises(NotToml, match=problem):
        parse_toml(text)


def test_read__bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b'a = "\xff"')
    with pytest.raises(NotToml, match="utf-8"):
        read_toml(tmp_path / "file")


def test_a_process_that_runs_has_not_ended() -> None:
    assert my_identity() == my_identity()
    assert not has_ended(my_identity())


def test_a_killed_process_has_ended_even_before_its_parent_waits_for_it() -> None:
    code = "from sluice.runtime.identity import my_identity; print(my_identity(), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        identity = child.stdout.readline().strip()
        assert not has_ended(identity)
        child.kill()
        wait_until(lambda: has_ended(identity), "the process has ended")


def test_another_process_with_the_same_number_is_not_the_same() -> None:
    boot, namespace, pid, started = my_identity().split("/")
    assert has_ended(f"{boot}/{namespace}/{pid}/{int(started) - 1}")


def test_processes_of_other_machines_and_namespaces_never_count_as_ended() -> None:
    _, namespace, _, _ = my_identity().split("/")
    assert not has_ended(f"another-boot/{namespace}/1/1")
    assert not has_ended(my_identity().replace(f"/{namespace}/", "/1/"))
    assert not has_ended("somebody")


# ── What can name a file, compared with what the kernel takes ──────────────────────────────────


@pytest.mark.parametrize("text", ["a", "a" * 255, "ä" * 127, "b/" * 2047 + "b", "/" + "c" * 200, ".."])
def test_a_name_that_the_kernel_takes(text: str) -> None:
    assert can_name_a_file(text)
    assert not is_file(Path("/nowhere") / text)


@pytest.mark.parametrize("text", ["a" * 256, "ä" * 128, "b/" * 2048 + "b", f"/tmp/{'c' * 256}/d"])
def test_a_name_that_is_too_long(text: str) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.ENAMETOOLONG)):
        Path(text).lstat()
    assert not can_name_a_file(text)
    assert not is_file(Path(text))
    assert not exists(Path(text))
