# SPDX-License-Identifier: Apache-2.0
"""gunicorn around the application: one process of threads, on TCP and a unix socket, gone two seconds after SIGTERM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.workers.gthread import ThreadWorker

from runtime.process import die_with_parent
from store.engine import open_store
from webui.app import create_app
from webui.services import EXTENSION

GRACEFUL_S = 1
KEEPALIVE_S = 75
"""Longer than the pause between two heartbeats, so that an agent's connection is not closed under its next request."""


class Worker(ThreadWorker):  # type: ignore[misc]
    """Tells the long-lived responses (server-sent events, a PUT that waits) to end when the process is to stop."""

    def handle_exit(self, sig: int, frame: Any) -> None:
        application = getattr(self, "wsgi", None)
        if application is not None:
            application.extensions[EXTENSION].stopping.set()
        super().handle_exit(sig, frame)


class Server(BaseApplication):  # type: ignore[misc]
    """The web process's settings; `run()` serves until a signal."""

    def __init__(
        self, store_url: str, token: str, listen: list[str], unix: Path | None, threads: int
    ) -> None:
        self._store_url = store_url
        self._token = token
        self._bind = [*listen, *([f"unix:{unix}"] if unix else [])]
        self._threads = threads
        super().__init__()

    def load_config(self) -> None:
        settings = {
            "bind": self._bind,
            "worker_class": Worker,
            "workers": 1,
            "threads": self._threads,
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
        return create_app(open_store(self._store_url), self._token)


def _post_fork(_arbiter: Any, _worker: Any) -> None:
    """A worker that outlived a killed parent would keep the sockets from its successor."""
    die_with_parent()
