# SPDX-License-Identifier: Apache-2.0
"""Reports to systemd: the service is ready, it is alive, it stops (`man sd_notify`).

Without systemd, all calls do nothing. The main loop of a service calls `alive`, so systemd restarts a service whose
loop hangs (`WatchdogSec=` in the unit).
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import MutableMapping

log = logging.getLogger(__name__)

_SOCKET, _WATCHDOG_US, _WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
_PARTS_OF_THE_LIMIT = 4
"""`alive` reports this often within the limit, so a report may come late."""


class Notifier:
    """One service's connection to systemd. It takes the variables out of the environment, so no child has them."""

    def __init__(self, environ: MutableMapping[str, str] = os.environ) -> None:
        address = environ.pop(_SOCKET, "")
        limit_us, pid = environ.pop(_WATCHDOG_US, ""), environ.pop(_WATCHDOG_PID, "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        watched = bool(self._address) and limit_us.isdigit() and pid in ("", str(os.getpid()))
        self.interval_s: float | None = int(limit_us) / 1e6 / _PARTS_OF_THE_LIMIT if watched else None
        """Seconds between two reports of life; None if systemd does not watch this service."""
        self._next_s = 0.0

    def ready(self, status: str) -> None:
        """Report that the service does its work. `systemctl status` shows the status."""
        self._send(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        """Report that the service ends on purpose."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """Report that the main loop turns. Call it as often as you like: it sends at most once each `interval_s`."""
        if self.interval_s is None or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + self.interval_s
        self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.connect(self._address)
                sender.sendall(message.encode())
        except OSError as error:
            log.warning("cannot report %r to systemd: %s", message.partition("\n")[0], error)
