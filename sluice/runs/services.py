# SPDX-License-Identifier: Apache-2.0
"""The processes of a run besides the testbed: started, watched, restarted when they die or hang, stopped
in reverse order."""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sluice.policy.errors import SluiceError
from sluice.runtime.process import reap_orphans, stop
from sluice.runtime.watchdog import Watchdog, socket_path

log = logging.getLogger(__name__)

Process = subprocess.Popen[bytes]

MAX_QUICK_DEATHS = 5
QUICK_DEATH_S = 5.0


@dataclass
class Service:
    """One supervised process."""

    name: str
    start: Callable[[Mapping[str, str]], Process]
    """Starts the process with these additional variables."""
    process: Process
    started_at: float
    watchdog: Watchdog | None = None
    restarts: int = 0
    quick_deaths: int = 0

    def hangs(self) -> bool:
        return self.watchdog is not None and self.watchdog.hangs()


@dataclass
class Services:
    """The supervised processes, in the order in which they were started.

    It uses no thread. The main thread calls `check` a few times a second. It also starts all
    processes, because a child dies with the thread that started it.
    """

    folder: Path | None = None
    """Folder with a short path for the reports of life. Without it, only processes that end are restarted."""
    running: list[Service] = field(default_factory=list)

    def start(self, name: str, start: Callable[[Mapping[str, str]], Process]) -> Service:
        watchdog = Watchdog(socket_path(self.folder, name)) if self.folder else None
        process = start(watchdog.env if watchdog else {})
        service = Service(name, start, process, time.monotonic(), watchdog)
        self.running.append(service)
        return service

    def check(self) -> None:
        """Restart processes that died or hang. Raises SluiceError if a process keeps dying right after its start."""
        for service in self.running:
            if service.hangs():
                log.warning("%s lives but does nothing: killing it", service.name)
                service.process.kill()
                service.process.wait()
            code = service.process.poll()
            if code is not None:
                self._restart(service, code)
        reap_orphans()

    def _restart(self, service: Service, code: int) -> None:
        quick = time.monotonic() - service.started_at < QUICK_DEATH_S
        service.quick_deaths = service.quick_deaths + 1 if quick else 0
        if service.quick_deaths >= MAX_QUICK_DEATHS:
            raise SluiceError(
                f"{service.name} ends right after each start (exit code {code}); see its log in the run's folder"
            )
        log.warning("%s ended (exit code %d): restarting it", service.name, code)
        if service.watchdog:
            service.watchdog.begin()
        service.process = service.start(service.watchdog.env if service.watchdog else {})
        service.started_at = time.monotonic()
        service.restarts += 1

    def stop(self, *prefixes: str) -> None:
        """Stop the services whose name starts with one of the prefixes (all without a prefix), newest first."""
        chosen = [s for s in self.running if not prefixes or s.name.startswith(prefixes)]
        for service in reversed(chosen):
            if service.process.poll() is None:
                service.process.terminate()
        for service in reversed(chosen):
            stop(service.process)
            if service.watchdog:
                service.watchdog.close()
            self.running.remove(service)

    def __getitem__(self, name: str) -> Service:
        return next(service for service in self.running if service.name == name)
