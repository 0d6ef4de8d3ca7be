# SPDX-License-Identifier: Apache-2.0
"""Readers and timed actions beside a test's thread."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator


def fill(sock: socket.socket) -> None:
    """Write until the buffers are full, because no one reads."""
    timeout_s = sock.gettimeout()
    sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            sock.send(bytes(65536))
    sock.settimeout(timeout_s)


@contextlib.contextmanager
def later(*actions: Callable[[], object], every_s: float = 0.2) -> Iterator[None]:
    """Run actions in another thread, one after the other."""

    def run() -> None:
        for action in actions:
            time.sleep(every_s)
            action()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@contextlib.contextmanager
def reading(sock: socket.socket) -> Iterator[list[int]]:
    """Read all data in another thread. Yields a list that holds the number of bytes after the end."""
    counts: list[int] = []

    def run() -> None:
        sock.settimeout(200)
        total = 0
        while data := sock.recv(1 << 18):
            total += len(data)
        counts.append(total)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield counts
    finally:
        thread.join()
