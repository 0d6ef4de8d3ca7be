# SPDX-License-Identifier: Apache-2.0
"""gunicorn with the application: worker processes, on TCP and a unix socket, that end within 2 s of SIGTERM."""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.util import parse_address

from policy.enrolment import AGENT_LIFE_S
from runtime.notify import Notifier
from runtime.process import die_with_parent
from runtime.wait import patient
from runtime.watchdog import LIMIT_S
from store.engine import engine_of
from store.retention import Retention
from webui.agent_tls import AGENTS, AgentsAddress, ServerTls
from webui.alerts.settings import AlertSettings
from webui.alerts.watch import AlertWatch
from webui.app import create_app
from webui.authority import Authority
from webui.durable import Durable
from webui.event_log import EventLog
from webui.event_stream import MOST_STREAMS
from webui.front import FrontWorker
from webui.hosts import allowed_hosts
from webui.housekeeping import Housekeeping
from webui.identity import Refusals
from webui.services import EXTENSION
from webui.stuck_copies import StuckCopies

GRACEFUL_S = 1
SWITCH_INTERVAL_S = 0.0002
"""How long a thread computes while others wait. A delivery needs about a dozen turns while the
live picture is drawn. With Python's default of 5 ms, it took 200 ms at 10,000 records a second."""
KEEPALIVE_S = 75
"""Longer than the pause between two heartbeats. Otherwise the server would close the connection
under the next one."""


@dataclass(frozen=True)
class ServerSettings:
    """The settings of the web process."""

    store_url: str = field(repr=False)
    token: str = field(repr=False)
    listen: list[str]
    """Addresses, each HOST:PORT."""
    unix: Path | None = None
    threads: int = 8
    """Reads that a worker answers at the same time. Changes, agents and /health have threads of their own."""
    most_connections: int = 4000
    """Connections that a worker keeps open at each kind of address."""
    most_streams: int = MOST_STREAMS
    """Event streams of a worker for clients with a token. Those without one have an eighth as many places."""
    workers: int = 1
    """Worker processes. Each reads the store itself, so all of them give the same answers."""
    retention: Retention = field(default_factory=Retention)
    fsync: bool = True
    event_log: str | None = None
    """A path, or "-" for standard error."""
    agents: str | None = None
    """The address HOST:PORT for agents of other machines, with TLS."""
    authority: Path | None = None
    """Folder of the agents' certificate authority; needed with `agents`."""
    certificate_life_s: float = AGENT_LIFE_S
    run_manager: Path | None = None
    """The socket of the process of runs."""
    allowed_hosts: tuple[str, ...] = ()
    """Names under which the process answers besides the loopback names and the addresses of `listen`."""
    alerts: AlertSettings = field(default_factory=AlertSettings)


class Overseer(Arbiter):  # type: ignore[misc]
    """gunicorn's first process. It restarts workers that hang, and reports to systemd what the workers do."""

    def __init__(self, app: Server, notifier: Notifier, serving: int, look_after: Callable[[], None]) -> None:
        """`serving` is an event file descriptor, which a worker sets once it serves. `look_after` runs each second."""
        self._notifier, self._serving, self._look_after = notifier, serving, look_after
        self._is_ready = False
        super().__init__(app)

    def murder_workers(self) -> None:
        """Look after the workers, once in each round of the loop."""
        super().murder_workers()
        self._look_after()
        if not self._is_ready and self._has_served():
            self._notifier.ready("serves the API and the dashboard")
            self._is_ready = True
        if any(
            time.monotonic() - worker.tmp.last_update() < self.timeout for worker in self.WORKERS.values()
        ):
            self._notifier.alive()

    def _has_served(self) -> bool:
        try:
            return os.eventfd_read(self._serving) > 0
        except BlockingIOError:
            return False

    def handle_hup(self) -> None:
        """Continue: a closed terminal does not end the service, and there is nothing to load again."""

    def stop(self, graceful: bool = True) -> None:
        self._notifier.stopping()
        super().stop(graceful)


class Server(BaseApplication):  # type: ignore[misc]
    """`run()` serves until a signal ends it."""

    def __init__(
        self,
        settings: ServerSettings,
        notifier: Notifier | None = None,
        look_after: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._look_after = look_after
        self._notifier = notifier or Notifier({})
        self._serving = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        super().__init__()

    def run(self) -> None:
        _allow_descriptors()
        Overseer(self, self._notifier, self._serving, self._look_after).run()

    @property
    def threads(self) -> int:
        return self._settings.threads

    @property
    def most_connections(self) -> int:
        return self._settings.most_connections

    def load_config(self) -> None:
        settings = {
            "bind": self._binds(),
            "worker_class": FrontWorker,
            "asgi_disconnect_grace_period": 0,
            "asgi_loop": "asyncio",
            "asgi_lifespan": "off",
            "workers": self._settings.workers,
            "timeout": round(patient(LIMIT_S)),
            "graceful_timeout": GRACEFUL_S,
            "keepalive": KEEPALIVE_S,
            "control_socket_disable": True,
            "proc_name": "sluice-web",
            "post_fork": _post_fork,
            "post_worker_init": self._serves,
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def _serves(self, _worker: Any) -> None:
        signal.signal(
            signal.SIGHUP, signal.SIG_IGN
        )  # gunicorn leaves it to the kernel, which would end the worker
        os.eventfd_write(self._serving, 1)

    def _binds(self) -> list[str]:
        settings = self._settings
        unix = [f"unix:{settings.unix}"] if settings.unix else []
        return [*settings.listen, *unix, *([settings.agents] if settings.agents else [])]

    def _authority(self) -> Authority | None:
        settings = self._settings
        if settings.agents is None or settings.authority is None:
            return None
        return Authority(settings.authority, settings.certificate_life_s)

    def _agents_address(self, authority: Authority | None, refusals: Refusals) -> AgentsAddress | None:
        if authority is None:
            return None
        return AgentsAddress(parse_address(self._settings.agents), ServerTls(authority), refusals.note)

    def load(self) -> Any:
        """Set up a worker. Runs in each worker process."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        # This works also while the store is unreachable.
        engine = engine_of(self._settings.store_url, fsync=self._settings.fsync)
        authority = self._authority()
        hosts = allowed_hosts(self._settings.listen, self._settings.allowed_hosts)
        app = create_app(
            engine,
            self._settings.token,
            authority=authority,
            hosts=hosts,
            most_streams=self._settings.most_streams,
            run_manager=self._settings.run_manager,
            alert_settings=self._settings.alerts,
        )
        app.extensions[AGENTS] = self._agents_address(authority, app.extensions[EXTENSION].refusals)
        found = app.extensions[EXTENSION]
        event_log = EventLog(engine, self._settings.event_log) if self._settings.event_log else None
        Housekeeping(
            engine, found.tally, found.ingestion, found.stopping, self._settings.retention, event_log
        ).start()
        AlertWatch(engine, found.recent, found.ingestion, found.tally, found.stopping, found.alerts).start()
        if engine.dialect.name == "postgresql":
            StuckCopies(engine, found.stopping).start()
        if engine.dialect.name == "postgresql" and self._settings.fsync:
            found.ingestion.durable = Durable(engine, found.stopping)
            found.ingestion.durable.start()
        _forget_garbage_so_far()
        return app


def _allow_descriptors() -> None:
    """Allow as many open descriptors as this user may have, because each connection needs one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _forget_garbage_so_far() -> None:
    """Exclude all loaded objects from garbage collection. A full collection would scan them for 60
    ms while a delivery waits."""
    gc.collect()
    gc.freeze()


def _post_fork(_arbiter: Any, _worker: Any) -> None:
    """End the worker with its parent. Otherwise it would keep the sockets that the parent's successor needs."""
    die_with_parent()
