# SPDX-License-Identifier: Apache-2.0
"""Reports to systemd, to a socket that the test reads."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.runtime.lifecycle import Notifier


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
    notifier = Notifier(environment(systemd))
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


def test_without_systemd_nothing_happens(tmp_path: Path) -> None:
    Notifier({}).ready("")
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("")


def test_an_abstract_socket() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reader:
        reader.bind(f"\0sluice-test-{os.getpid()}")
        Notifier({"NOTIFY_SOCKET": f"@sluice-test-{os.getpid()}"}).ready("x")
        assert reader.recv(100) == b"READY=1\nSTATUS=x"


def test_children_do_not_inherit_the_socket(systemd: socket.socket) -> None:
    environ = environment(systemd, WATCHDOG_USEC="1000000", WATCHDOG_PID="5")
    Notifier(environ)
    assert environ == {}
