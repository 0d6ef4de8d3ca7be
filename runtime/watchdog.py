# SPDX-License-Identifier: Apache-2.0
"""Finds a child that lives but does nothing, by the reports that it would send to systemd (runtime/notify.py)."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from sluice.runtime.wait import patient

LIMIT_S = 10.0
"""A service that was ready and has not reported for this long hangs."""
MOST_BYTES = 107
"""Of a Unix socket's path."""
_OWN_PAUSE_S = 2.0
"""If this process has not looked for so long, it may have been stopped together with the child."""


class Watchdog:
    """The watch over one service. Start each of its processes with `env`, after `begin`."""

    def __init__(self, path: Path, limit_s: float = LIMIT_S) -> None:
        """`path`: where the service sends its reports; at most 107 bytes."""
        self._path = path
        self._limit_s = patient(limit_s)
        path.unlink(missing_ok=True)
        self._socket = socket.socket(
            socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        )
        self._socket.bind(str(path))
        self._turned_s: float | None = None
        """When the service reported last; None before it is ready, and once it ends on purpose."""
        self._looked_s = time.monotonic()

    @property
    def env(self) -> Mapping[str, str]:
        """The variables of the service."""
        return {"NOTIFY_SOCKET": str(self._path), "WATCHDOG_USEC": str(round(self._limit_s * 1e6))}

    def begin(self) -> None:
        """Forget the process before."""
        for _ in self._messages():
            pass
        self._turned_s = None

    def hangs(self) -> bool:
        """Return whether the service does nothing. Call this several times a second."""
        now_s = time.monotonic()
        pause_s, self._looked_s = now_s - self._looked_s, now_s
        if self._turned_s is not None and pause_s > _OWN_PAUSE_S:
            self._turned_s += pause_s
        for message in self._messages():
            if "STOPPING=1" in message:
                self._turned_s = None
            elif "READY=1" in message or self._turned_s is not None:
                self._turned_s = now_s
        return self._turned_s is not None and now_s - self._turned_s > self._limit_s

    def close(self) -> None:
        """Remove the socket. A second call does nothing."""
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def _messages(self) -> Iterator[list[str]]:
        while True:
            try:
                yield self._socket.recv(4096).decode(errors="replace").splitlines()
            except BlockingIOError:
                return


def socket_path(folder: Path, name: str) -> Path:
    """Return a path for a service's reports that no other process of this machine uses.

    If the folder's own path is too long for a socket, the path goes through a descriptor that stays open.
    """
    path = folder / f"alive-{name}-{os.getpid()}"
    if len(os.fsencode(path)) <= MOST_BYTES:
        return path
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return Path(f"/proc/{os.getpid()}/fd/{descriptor}", path.name)
