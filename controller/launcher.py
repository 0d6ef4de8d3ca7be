# SPDX-License-Identifier: Apache-2.0
"""Starts the controller's parts and stops them in order: listener, connections, application, store.

os-ken's own manager cannot stop with native threads (`run_apps` ends in an AttributeError), so this is done here; every
thread is a daemon or has a time limit, and the process ends within STOP_LIMIT_S of SIGTERM.
"""

from __future__ import annotations

import logging
import signal
import socket
import threading

from os_ken.base.app_manager import AppManager

from controller.app import Controller
from controller.connection import Handshake, Listener

log = logging.getLogger(__name__)

STOP_LIMIT_S = 1.5


class Launcher:
    """A running controller."""

    def __init__(self, listening: socket.socket, store_url: str) -> None:
        manager = AppManager.get_instance()
        self._handshake: Handshake = manager.instantiate(Handshake)
        self._controller: Controller = manager.instantiate(Controller, store_url)
        self._listener = Listener(listening)
        self._ended = threading.Event()
        self._failed = False
        self._handshake.failed = self._controller.failed = self._fail

    def run(self) -> int:
        """Serve until SIGTERM, SIGINT or a bug; returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._ended.set())
        self._handshake.start()
        self._controller.start()
        self._listener.start()
        self._ended.wait()
        self._stop()
        return 1 if self._failed else 0

    def _fail(self) -> None:
        self._failed = True
        self._ended.set()

    def _stop(self) -> None:
        log.info("stopping")
        self._listener.close(STOP_LIMIT_S / 3)
        if not self._failed:
            self._controller.stop()
            self._handshake.stop()
        self._controller.recorder.stop(STOP_LIMIT_S / 2)
