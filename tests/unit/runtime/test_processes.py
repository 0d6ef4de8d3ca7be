# SPDX-License-Identifier: Apache-2.0
"""A service's process: its children, its priority, its end, its reports to systemd, its logs, and its identity."""

import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.runtime.identity import has_ended, my_identity, started
from sluice.runtime.lifecycle import Notifier
from sluice.runtime.process import HOST_NICE, Priority, keep_short, raised, spawn, stop
from sluice.runtime.wait import wait_until


@pytest.fixture
def ignored_interrupt() -> Iterator[None]:
    """This process ignores SIGINT, as a background job of a shell does."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ignored_interrupt")
def test_spawn__a_child_of_a_background_job_ends_at_an_interrupt(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = spawn(
        [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"], log_file=log
    )
    wait_until(lambda: "up" in log.read_text(), "it is up")  # an interrupt of Python's own start may be lost
    process.send_signal(signal.SIGINT)
    wait_until(lambda: process.poll() is not None, "it has ended")


OWN_NICE = os.getpriority(os.PRIO_PROCESS, 0)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may raise a process")
_SHOW = "import os; print(os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))"
_TAKE = (
    "from sluice.runtime.process import allowed_priority as p, take_priority as t; print(p().name, t(-15).name);"
    + _SHOW
)
_NO_REALTIME = """
import os
def refuse(*_): raise PermissionError
os.sched_setscheduler = refuse
"""
"""As in a container on a kernel with real-time groups."""
_LOWERED = ["setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice"]


def output(argv: list[str]) -> list[str]:
    done = subprocess.run(argv, capture_output=True, text=True, check=True, start_new_session=True)
    return done.stdout.split()


@needs_root
@pytest.mark.parametrize(
    ("prefix", "before", "expected"),
    [
        ([], "", Priority.REALTIME),
        ([], _NO_REALTIME, Priority.NICE),
        (_LOWERED, "", Priority.ORDINARY),
    ],
)
def test_take__the_best_that_this_place_allows(prefix: list[str], before: str, expected: Priority) -> None:
    told, taken, scheduler, nice = output([*prefix, sys.executable, "-c", before + _TAKE])
    assert (told, taken) == (expected.name, expected.name)
    assert int(scheduler) & os.SCHED_RR == (os.SCHED_RR if expected is Priority.REALTIME else 0)
    assert int(nice) == (HOST_NICE if expected is Priority.NICE else OWN_NICE)


@needs_root
@pytest.mark.parametrize(
    ("priority", "scheduler", "nice"),
    [
        (Priority.REALTIME, os.SCHED_RR, OWN_NICE),
        (Priority.NICE, os.SCHED_OTHER, max(OWN_NICE - 20, -20)),
        (Priority.ORDINARY, os.SCHED_OTHER, OWN_NICE),
    ],
)
def test_raised__runs_the_command(priority: Priority, scheduler: int, nice: int) -> None:
    assert output(raised([sys.executable, "-c", _SHOW], priority, -20)) == [str(scheduler), str(nice)]


# Each signal that asks for the end does the same, unless the parent has said to ignore it.


_PROGRAM = """
import os, signal, sys, time
from sluice.runtime.lifecycle import on_first_end
def end(number):
    raise KeyboardInterrupt(number.name)
on_first_end(end)
try:
    os.write(int(sys.argv[1]), b"ready\\n")
    while True:
        time.sleep(0.05)  # signal.pause() would miss a signal that comes just before it
except KeyboardInterrupt as error:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        os.kill(os.getpid(), number)  # someone is impatient
    print("a line for a terminal that may be gone", flush=True)
    os.write(int(sys.argv[1]), f"ended by {error}\\n".encode())
"""
SIGNALS = ["HUP", "INT", "TERM", "QUIT"]


def run(number: signal.Signals, **streams: Any) -> Iterator[str]:
    """Start the program, yield its first report, send it a signal, and yield the rest. It must end with 0."""
    reader, writer = os.pipe()
    argv = ["env", "--default-signal=HUP,QUIT,INT", sys.executable, "-c", _PROGRAM, str(writer)]
    with subprocess.Popen(argv, pass_fds=[writer], **streams) as process, os.fdopen(reader) as report:
        os.close(writer)
        try:
            yield report.readline()
            os.kill(process.pid, number)
            yield report.read()
            assert process.wait(300) == 0
        finally:
            process.kill()  # nothing happens if it has ended


@pytest.mark.parametrize("name", SIGNALS)
def test_every_signal_ends_in_order(name: str) -> None:
    number = signal.Signals[f"SIG{name}"]
    assert list(run(number, stdout=subprocess.DEVNULL)) == ["ready\n", f"ended by SIG{name}\n"]


def test_a_closed_terminal_does_not_disturb_the_end() -> None:
    ours, terminal = pty.openpty()
    reports = run(signal.SIGHUP, stdin=terminal, stdout=terminal, start_new_session=True)
    assert next(reports) == "ready\n"
    os.close(terminal)
    os.close(ours)  # writing into the terminal is an error from now on
    assert list(reports) == ["ended by SIGHUP\n"]


def test_nohup_is_respected() -> None:
    program = (
        "import os, signal; from sluice.runtime.lifecycle import end_signals\n"
        "print(sorted(number.name for number in end_signals()))"
    )
    argv = ["env", "--ignore-signal=HUP", sys.executable, "-c", program]
    shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "['SIGINT', 'SIGQUIT', 'SIGTERM']"


# ── Reports to systemd, to a socket that the test reads ────────────────────────────────────────


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reader:
        reader.bind(str(tmp_path / "notify"))
        reader.setblocking(False)
        yield reader


def environment(reader: socket.socket, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": reader.getsockname(), **more}


def heard(reader: socket.socket) -> list[str]:
    found = []
    try:
        while True:
            found.append(reader.recv(4096).decode())
    except BlockingIOError:
        return found


def test_ready_and_stopping(systemd: socket.socket) -> None:
    environ = environment(systemd, WATCHDOG_USEC="1000000", WATCHDOG_PID="5")
    notifier = Notifier(environ)
    assert environ == {}, "no child inherits them"
    notifier.ready("serves")
    notifier.stopping()
    assert heard(systemd) == ["READY=1\nSTATUS=serves", "STOPPING=1"]


def test_alive__at_most_once_each_interval(systemd: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    notifier = Notifier(environment(systemd, WATCHDOG_USEC="8000000", WATCHDOG_PID=str(os.getpid())))
    assert notifier.interval_s == 2.0
    now = time.monotonic()
    for step_s in (0.0, 1.9, 2.1, 2.2, 4.2):
        monkeypatch.setattr(time, "monotonic", lambda step_s=step_s: now + step_s)
        notifier.alive()
    assert heard(systemd) == ["WATCHDOG=1"] * 3


@pytest.mark.parametrize("more", [{}, {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}])
def test_alive__says_nothing_if_systemd_does_not_watch_this_process(
    systemd: socket.socket, more: dict[str, str]
) -> None:
    notifier = Notifier(environment(systemd, **more))
    notifier.alive()
    assert notifier.interval_s is None
    assert heard(systemd) == []


def test_a_supervisor_that_stands_still_holds_up_no_service(systemd: socket.socket) -> None:
    """The kernel keeps some reports for it. Another one must not wait until it goes on."""
    notifier = Notifier(environment(systemd, WATCHDOG_USEC="1"))
    for _ in range(1000):
        notifier.alive()
    notifier.stopping()
    assert set(heard(systemd)) == {"WATCHDOG=1"}
    notifier.alive()
    notifier.stopping()
    assert heard(systemd) == ["WATCHDOG=1", "STOPPING=1"]


def test_alive__touches_a_file_where_there_is_no_systemd(tmp_path: Path) -> None:
    environ = {"SLUICE_ALIVE_FILE": str(tmp_path / "alive")}
    notifier = Notifier(environ)
    assert environ == {}, "no child touches it"
    notifier.ready("serves")
    assert not (tmp_path / "alive").exists()
    notifier.alive()
    assert (tmp_path / "alive").exists()


def test_an_abstract_socket() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reader:
        reader.bind(f"\0sluice-test-{os.getpid()}")
        Notifier({"NOTIFY_SOCKET": f"@sluice-test-{os.getpid()}"}).ready("x")
        assert reader.recv(100) == b"READY=1\nSTATUS=x"


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
    wait_until(lambda: started(child) is None, "the child is gone")


# ── Whether a process has ended ──────────────────────────────────────────────────────────────────


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
    boot, namespace, pid, began = my_identity().split("/")
    assert has_ended(f"{boot}/{namespace}/{pid}/{int(began) - 1}")


def test_processes_of_other_machines_and_namespaces_never_count_as_ended() -> None:
    _, namespace, _, _ = my_identity().split("/")
    assert not has_ended(f"another-boot/{namespace}/1/1")
    assert not has_ended(my_identity().replace(f"/{namespace}/", "/1/"))
    assert not has_ended("somebody")
