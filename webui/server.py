# SPDX-License-Identifier: Apache-2.0
"""The web process: it listens, starts worker processes, replaces those that hang, and ends within 2 s of SIGTERM."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import mmap
import os
import resource
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from flask import Flask
from tornado.netutil import bind_sockets, bind_unix_socket

from sluice.policy.errors import EnvironmentLacking
from sluice.runtime.lifecycle import LIMIT_S, Notifier
from sluice.runtime.process import die_with_parent
from sluice.runtime.settings.kinds import split_address
from sluice.runtime.wait import patient
from sluice.store.engine import engine_of
from sluice.webui.access import allowed_hosts
from sluice.webui.app import create_app
from sluice.webui.authority import Authority
from sluice.webui.bridge import AGENTS, PLAIN, UNIX, Bridge
from sluice.webui.housekeeping import EventLog, Housekeeping, free_stuck_copies
from sluice.webui.service import WebOptions, retention_of
from sluice.webui.services import EXTENSION, Services

log = logging.getLogger(__name__)

Listener: TypeAlias = tuple[str, socket.socket]
"""Its kind (webui/bridge.py) and its socket."""

EVERY_S = 1.0
"""The pause between two looks at the workers, and between two signs of life of a worker."""
GRACEFUL_S = 0.5
"""Time for running requests after SIGTERM. A worker that is still there after three times as long is killed."""
BIND_S = 5.0
"""Time for a killed predecessor's workers to release the address."""
BACKLOG = 4096
"""Connections that wait to be accepted. A further one tries again after a second (Linux, somaxconn)."""
SWITCH_INTERVAL_S = 0.0002
"""How long a thread computes while others wait. A delivery needs about a dozen turns while the
live picture is drawn. With Python's default of 5 ms, it took 200 ms at 10,000 records a second."""


@dataclass(frozen=True)
class ServerSettings:
    """What the web process serves with."""

    options: WebOptions
    store_url: str = field(repr=False)
    """With the password."""
    token: str = field(repr=False)
    run_manager: Path | None = None
    """The socket of the process of runs."""


class Worker:
    """A child process that serves, as its parent sees it."""

    def __init__(self, serve: Callable[[Worker], None]) -> None:
        self.was_killed = False
        """Whether a signal has ended it, for example of a machine that lacks memory."""
        self._life = mmap.mmap(-1, 8)  # parent and child share it
        self._began_s = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                serve(self)
                status = 0
            except BaseException:
                log.exception("a worker failed")
            finally:
                os._exit(status)  # threads that still work do not hold it up

    def beat(self) -> None:
        """Give a sign of life. The child calls it."""
        struct.pack_into("d", self._life, 0, time.monotonic())

    @property
    def has_served(self) -> bool:
        return self._beaten_s > 0

    @property
    def silent_s(self) -> float:
        """Seconds since the last sign of life."""
        return time.monotonic() - max(self._began_s, self._beaten_s)

    @property
    def _beaten_s(self) -> float:
        return float(struct.unpack_from("d", self._life)[0])

    def ends(self, within_s: float = 0.0) -> bool:
        """Return whether the process has ended. Call it until then."""
        until = time.monotonic() + within_s
        while True:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.was_killed = os.WIFSIGNALED(status)
            if ended or time.monotonic() >= until:
                return bool(ended)
            time.sleep(0.01)


class Server:
    """`run()` serves until a signal ends it."""

    def __init__(
        self,
        settings: ServerSettings,
        notifier: Notifier | None = None,
        look_after: Callable[[], None] = lambda: None,
    ) -> None:
        """`look_after` runs each second."""
        self._settings, self._notifier, self._look_after = settings, notifier or Notifier({}), look_after
        self._workers: list[Worker] = []
        self._is_ending = self._is_ready = False
        self._looked_s = time.monotonic()

    def run(self) -> None:
        """Raises EnvironmentLacking if an address is taken, or if a worker cannot start."""
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each connection needs a descriptor
        self._listeners = listeners(self._settings)
        wakes = self._catch_signals()
        try:
            while not self._is_ending:
                self._look()
                if select.select([wakes], [], [], EVERY_S)[0]:
                    os.read(wakes, 4096)
        finally:
            self._stop()

    def _catch_signals(self) -> int:
        """Return a descriptor that is readable after a signal."""
        wakes, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_end)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a closed terminal does not end the service
        return wakes

    def _note_end(self, *_: object) -> None:
        self._is_ending = True

    def _look(self) -> None:
        """Replace workers that have ended or hang, and report to systemd."""
        now_s, before_s = time.monotonic(), self._looked_s
        self._looked_s = now_s
        # After a longer time, the workers may have been stopped together with this process.
        if now_s - before_s < 2 * EVERY_S:
            for worker in self._workers:
                if worker.silent_s > patient(LIMIT_S):
                    log.error("the worker %d hangs", worker.pid)
                    os.kill(worker.pid, signal.SIGKILL)
        ended = [worker for worker in self._workers if worker.ends()]
        self._workers = [worker for worker in self._workers if worker not in ended]
        if not all(worker.has_served or worker.was_killed for worker in ended):
            raise EnvironmentLacking("a worker of the web process cannot start; its log says why")
        while len(self._workers) < self._settings.options.workers:
            self._workers.append(Worker(self._serve))
        self._look_after()
        if not self._is_ready and any(worker.has_served for worker in self._workers):
            self._notifier.ready("serves the API and the dashboard")
            self._is_ready = True
        if any(worker.silent_s < patient(LIMIT_S) for worker in self._workers):
            self._notifier.alive()

    def _stop(self) -> None:
        self._notifier.stopping()
        for worker in self._workers:
            os.kill(worker.pid, signal.SIGTERM)
        for worker in self._workers:
            if not worker.ends(3 * GRACEFUL_S):
                os.kill(worker.pid, signal.SIGKILL)
        if self._settings.options.unix:
            self._settings.options.unix.unlink(missing_ok=True)

    def _serve(self, worker: Worker) -> None:
        """Serve in a worker process until SIGTERM."""
        die_with_parent()  # otherwise it would keep the sockets that the parent's successor needs
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, too
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        app = application(self._settings)
        asyncio.run(_serve(self._settings.options, app, self._listeners, worker.beat))


async def _serve(
    options: WebOptions, app: Flask, sockets: Sequence[Listener], beat: Callable[[], None]
) -> None:
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    bridge = Bridge(app, options.threads, options.most_connections)
    for kind, listener in sockets:
        bridge.listen(kind, listener)
    while not ending.is_set():
        beat()
        try:
            await asyncio.wait_for(ending.wait(), EVERY_S)
        except TimeoutError:
            continue
    await bridge.end(GRACEFUL_S)
    os._exit(0)  # asyncio.run would wait for the threads


def listeners(settings: ServerSettings) -> list[Listener]:
    """Return sockets that listen at all addresses. Raises EnvironmentLacking."""
    options = settings.options
    listening = [(PLAIN, each) for address in options.addresses for each in _bound(address)]
    if options.agents:
        listening += [(AGENTS, each) for each in _bound(options.agents)]
    if options.unix:
        try:
            listening.append((UNIX, bind_unix_socket(str(options.unix), 0o777, BACKLOG)))
        except (OSError, ValueError) as error:
            raise EnvironmentLacking(
                f"cannot listen on {options.unix}: {error}; choose another path"
            ) from None
    return listening


def _bound(address: str) -> list[socket.socket]:
    host, port = split_address(address)
    until = time.monotonic() + patient(BIND_S)
    while True:
        try:
            return bind_sockets(port, host, backlog=BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > until:
                problem = f"cannot listen on {address}: {error.strerror}; choose another address"
                raise EnvironmentLacking(problem) from None
        time.sleep(0.1)


def application(settings: ServerSettings) -> Flask:
    """Return the application of a worker process, whose threads it starts."""
    options = settings.options
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    # This works also while the store is unreachable.
    engine = engine_of(settings.store_url, fsync=options.fsync)
    app = create_app(
        engine,
        settings.token,
        authority=Authority(options.authority_folder, options.certificate_life) if options.agents else None,
        hosts=allowed_hosts(options.addresses, options.allowed_hosts),
        most_streams=options.most_streams,
        most_agents=options.most_agents,
        run_manager=settings.run_manager,
    )
    shared: Services = app.extensions[EXTENSION]
    event_log = EventLog(engine, str(options.event_log)) if options.event_log else None
    Housekeeping(
        engine, shared.tally, shared.ingestion, shared.stopping, retention_of(options), event_log
    ).start()
    if engine.dialect.name == "postgresql":
        arguments = (engine, shared.stopping)
        threading.Thread(target=free_stuck_copies, args=arguments, name="stuck-copies", daemon=True).start()
    # A full collection of garbage would scan all loaded objects for 60 ms while a delivery waits.
    gc.collect()
    gc.freeze()
    return app
