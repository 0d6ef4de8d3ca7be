# SPDX-License-Identifier: Apache-2.0
"""os-ken applications whose event loop ends with the process, and ends the process on a bug."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from os_ken.base.app_manager import OSKenApp
from os_ken.controller.ofp_handler import OFPHandler

from sluice.controller.events import EventAnswer

log = logging.getLogger(__name__)


class DaemonLoop(OSKenApp):  # type: ignore[misc]
    """An os-ken application that stops when a handler raises an exception.

    os-ken logs the exception and continues with half of the handler's work done. Stopping is
    safer, because a new controller reads the rules of the switches and changes nothing that is
    right.
    """

    failed: Callable[[], None] = staticmethod(lambda: None)
    """Called when a handler has raised an exception."""

    def start(self) -> None:
        loop = threading.Thread(target=self._event_loop, name=self.name, daemon=True)
        self.threads.append(loop)
        loop.start()

    def _event_loop(self) -> None:
        try:
            while self.is_active or not self.events.empty():
                event, state = self.events.get()
                self._events_sem.release()
                if event != self._event_stop:
                    for handler in list(self.get_handlers(event, state)):
                        handler(event)
        except Exception:
            log.exception("%s: a handler has failed; the controller ends", self.name)
            self.failed()


class Handshake(DaemonLoop, OFPHandler):  # type: ignore[misc]
    """os-ken's handshake without os-ken's server. It also hands on the answers of switches."""

    LOGGER_NAME = "os_ken.handshake"

    _EVENTS = [EventAnswer]  # noqa: RUF012 (os-ken's interface)
