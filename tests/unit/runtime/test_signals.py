# SPDX-License-Identifier: Apache-2.0
"""Each signal that asks for the end does the same, unless the parent has said to ignore it."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

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
