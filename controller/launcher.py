# SPDX-License-Identifier: Apache-2.0
"""Starts the controller's threads, and stops them in order.

os-ken's own manager cannot stop with native threads, because `run_apps` ends in an AttributeError.
So the launcher replaces it. Every thread is a daemon or has a time limit, and the process ends
within STOP_LIMIT_S of SIGTERM.
"""

import logging
import os
import signal
import socket
import ssl
import threading
import time

from os_ken.base.app_manager import AppManager

from sluice.controller import END_SIGNALS
from sluice.controller.app import Controller, Handshake
from sluice.controller.connection import Listener
from sluice.runtime.lifecycle import Notifier

log = logging.getLogger(__name__)

STOP_LIMIT_S = 1.5
_LOOK_S = 0.5
TURN_LIMIT_S = 5.0
"""The event loop hangs if it has not handled a tick for this long."""


class Launcher:
    """A running controller."""

    def __init__(
        self, listening: socket.socket, store_url: str, context: ssl.SSLContext | None, notifier: Notifier
    ) -> None:
        """With a `context`, switches must speak TLS."""
        self._notifier = notifier
        manager = AppManager.get_instance()
        self._handshake: Handshake = manager.instantiate(Handshake)
        self._controller: Controller = manager.instantiate(Controller, store_url)
        self._listener = Listener(listening, context)
        self._failed = False
        self._stopping = threading.Event()
        self._handshake.failed = self._controller.failed = self._fail

    def run(self) -> int:
        """Serve until SIGTERM, SIGINT or a bug. Returns the exit code.

        The caller must block END_SIGNALS before the first thread starts. This thread waits for
        them instead of handling them: a handler could run while the thread holds a lock, or in
        another thread.
        """
        self._handshake.start()
        self._controller.start()
        self._listener.start()
        threading.Thread(target=self._report_life, name="life", daemon=True).start()
        signal.sigwait(END_SIGNALS)
        log.info("stopping")
        self._stopping.set()
        self._notifier.stopping()
        # Each end of a connection or of a loop waits for room in a queue, whose loop may be busy or dead.
        ending = threading.Thread(target=self._end_loops, name="end", daemon=True)
        ending.start()
        ending.join(STOP_LIMIT_S / 3)
        self._controller.recorder.stop(STOP_LIMIT_S / 2)
        self._controller.leadership.stop(STOP_LIMIT_S / 6)
        return 1 if self._failed else 0

    def _report_life(self) -> None:
        """Report to systemd whether the event loop turns.

        A thread of its own does this. `signal.sigtimedwait` would let one thread wait and report, but after a stop
        of the whole process (SIGSTOP, a paused machine) it returns as if a signal had arrived.
        """
        is_ready = False
        while not self._stopping.wait(_LOOK_S):
            if time.monotonic() - self._controller.turned_s > TURN_LIMIT_S:
                continue
            if not is_ready:
                self._notifier.ready("listens for switches")
                is_ready = True
            self._notifier.alive()

    def _fail(self) -> None:
        """End the process. A thread calls this when one of its handlers has failed."""
        self._failed = True
        os.kill(os.getpid(), signal.SIGTERM)

    def _end_loops(self) -> None:
        self._controller.wind_down()
        self._listener.close(STOP_LIMIT_S / 3)
        if not self._failed:
            self._controller.stop()
            self._handshake.stop()
