# SPDX-License-Identifier: Apache-2.0
"""gunicorn around the application: processes of threads, on TCP and a unix socket, gone two seconds after SIGTERM."""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.workers.gthread import ThreadWorker

from runtime.process import die_with_parent
from store.engine import engine_of
from store.retention import Retention
from webui.app import create_app
from webui.event_log import EventLog
from webui.housekeeping import Housekeeping
from webui.services import EXTENSION

GRACEFUL_S = 1
SWITCH_INTERVAL_S = 0.001
"""How long a thread may compute while others wait. While the live picture is drawn, a delivery has its turn a dozen
times; with Python's 5 ms each of them it took 200 ms at 10,000 records a second."""
KEEPALIVE_S = 75
"""Longer than the pause between two heartbeats, so that an agent's connection is not closed under its next request."""


class Worker(ThreadWorker):  # type: ignore[misc]
    """Tells the long-lived responses (server-sent events, a PUT that waits) to end when the process is to stop."""

    def handle_exit(self, sig: int, frame: Any) -> None:
        application = getattr(self, "wsgi", None)
        if application is not None:
            application.extensions[EXTENSION].stopping.set()
        super().handle_exit(sig, frame)


@dataclass(frozen=True)
class ServerSettings:
    """What the web process is told."""

    store_url: str
    token: str
    listen: list[str]
    """HOST:PORT each."""
    unix: Path | None = None
    threads: int = 64
    """Requests that a worker serves at once; a dashboard takes one."""
    workers: int = 1
    """Processes. Each looks at the store by itself, so a client is told the same by all of them."""
    retention: Retention = field(default_factory=Retention)
    event_log: str | None = None
    """A path, or "-" for standard error."""


class Server(BaseApplication):  # type: ignore[misc]
    """`run()` serves until a signal."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        super().__init__()

    def load_config(self) -> None:
        settings = {
            "bind": [*self._settings.listen, *([f"unix:{unix}"] if (unix := self._settings.unix) else [])],
            "worker_class": Worker,
            "workers": self._settings.workers,
            "threads": self._settings.threads,
            "timeout": 60,
            "graceful_timeout": GRACEFUL_S,
            "keepalive": KEEPALIVE_S,
            "control_socket_disable": True,
            "proc_name": "sluice-web",
            "post_fork": _post_fork,
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        """In each worker."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        engine = engine_of(self._settings.store_url)  # a worker begins also while the store is away
        app = create_app(engine, self._settings.token)
        found = app.extensions[EXTENSION]
        event_log = EventLog(engine, self._settings.event_log) if self._settings.event_log else None
        Housekeeping(
            engine, found.tally, found.ingestion, found.stopping, self._settings.retention, event_log
        ).start()
        _forget_garbage_so_far()
        return app


def _forget_garbage_so_far() -> None:
    """What has been loaded stays: each full collection would walk through it again, 60 ms under a delivery's feet."""
    gc.collect()
    gc.freeze()


def _post_fork(_arbiter: Any, _worker: Any) -> None:
    """A worker that outlived a killed parent would keep the sockets from its successor."""
    die_with_parent()
