# SPDX-License-Identifier: Apache-2.0
"""Signals that ask a process to end: Ctrl-C, a closed terminal, `kill`, `systemctl stop`. All of them end in order."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable

_ASKING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)


def end_signals() -> set[signal.Signals]:
    """Return the signals that end this process. SIGHUP is none of them under nohup, which lets a process ignore it."""
    stays = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return {number for number in _ASKING if not (stays and number == signal.SIGHUP)}


def on_end(end: Callable[[], object]) -> None:
    """Call `end` at each signal that asks this process to end. Call this in the main thread."""
    for number in end_signals():
        signal.signal(number, lambda *_: end())


def on_first_end(end: Callable[[signal.Signals], object]) -> None:
    """Call `end` at the first such signal. Later ones do not disturb the end, except Ctrl-C.

    At SIGHUP, the terminal is gone, so the output goes nowhere from then on.
    """

    def first(number: int, frame: object) -> None:
        for other in end_signals() - {signal.SIGINT}:
            signal.signal(other, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if number == signal.SIGHUP:
            _leave_terminal()
        end(signal.Signals(number))

    for number in end_signals():
        signal.signal(number, first)


def _leave_terminal() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for stream in (0, 1, 2):
        if stat.S_ISCHR(os.fstat(stream).st_mode):  # isatty() is false once the terminal is gone
            os.dup2(nowhere, stream)
    os.close(nowhere)
