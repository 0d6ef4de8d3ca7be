# SPDX-License-Identifier: Apache-2.0
"""The processes of a run besides the testbed: background flows, and how all are supervised.

They are started, watched, restarted when they die or hang, and stopped in reverse order.

Long background flows are processes, too: iperf 2 between two hosts, with the scheme's congestion control on both ends.
They are no part of a run's result. The reports of the iperf server measure their throughput at the receiver.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sluice.policy.errors import SluiceError
from sluice.runtime.lifecycle import Watchdog, socket_path
from sluice.runtime.process import reap_orphans, stop

FIRST_PORT = 5100
"""The first port of background flows; each flow to a host has its own port. The agents use wire.PORT."""
REPORT_S = 1
_FOREVER_S = 30 * 24 * 3600
_CSV_FIELDS = 9
_BLOCK_BYTES, _BLOCKS_PER_S = 128 << 10, 10
"""iperf writes whole blocks, and refuses a rate of less than one block a second. So slow flows have smaller ones."""

Spawn = Callable[[str, Sequence[str], Path], "subprocess.Popen[bytes]"]
"""Starts a command on a host and appends its output to a file."""


@dataclass(frozen=True)
class Load:
    """One long flow."""

    source: str
    to: str
    address: str
    """Address of `to`."""
    congestion_control: str | None
    """None: the hosts' default."""
    rate_bps: int | None = None
    """None: as fast as the network allows."""
    port: int = FIRST_PORT


def server_argv(load: Load) -> list[str]:
    """Return the receiver's command. Without stdbuf, iperf would print its reports only at its end."""
    return ["stdbuf", "-oL", "iperf", "-s", "-p", str(load.port), *_common(load)]


def client_argv(load: Load) -> list[str]:
    """Return the sender's command."""
    argv = ["stdbuf", "-oL", "iperf", "-c", load.address, "-p", str(load.port), *_common(load)]
    argv += ["-t", str(_FOREVER_S), "--connect-retries", "10"]
    if load.rate_bps is None:
        return argv
    block_bytes = min(_BLOCK_BYTES, max(1, load.rate_bps // 8 // _BLOCKS_PER_S))
    return [*argv, "-b", str(load.rate_bps), "-l", str(block_bytes)]


def _common(load: Load) -> list[str]:
    control = [] if load.congestion_control is None else ["-Z", load.congestion_control]
    return ["-i", str(REPORT_S), "-y", "C", *control]


def parse_report(text: str) -> list[tuple[float, float, int]]:
    """Return the intervals of iperf's CSV report: start and end in seconds, and the bytes that arrived between.

    The sum at its end and incomplete lines are left out.
    """
    intervals: list[tuple[float, float, int]] = []
    for line in text.splitlines():
        fields = line.split(",")
        if len(fields) != _CSV_FIELDS:
            continue
        start_s, end_s = map(float, fields[6].split("-"))
        if end_s > start_s and not (start_s == 0 and intervals):
            intervals.append((start_s, end_s, int(fields[7])))
    return intervals


class BackgroundLoad:
    """A running background flow; a context manager. Both ends write their output into `folder`."""

    def __init__(self, spawn: Spawn, load: Load, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.load = load
        self._report = folder / f"iperf-{load.source}-{load.to}-{load.port}.csv"
        self._report.unlink(missing_ok=True)
        self._server = spawn(load.to, server_argv(load), self._report)
        client_log = self._report.with_suffix(".client.csv")
        self._client = spawn(load.source, client_argv(load), client_log)

    def intervals(self) -> list[tuple[float, float, int]]:
        """Return the bytes that arrived, second by second; empty in the first second."""
        return parse_report(self._report.read_text()) if self._report.exists() else []

    def rate_bps(self, last: int = 5) -> float | None:
        """Return the mean rate of arrival over the last seconds; None before the first report."""
        intervals = self.intervals()[-last:]
        if not intervals:
            return None
        return sum(8 * size for _, _, size in intervals) / sum(
            end_s - start_s for start_s, end_s, _ in intervals
        )

    def running(self) -> bool:
        """Whether both ends run."""
        return self._server.poll() is None and self._client.poll() is None

    def stop(self) -> None:
        """Stop the sender, then the receiver. A second call does nothing."""
        stop(self._client)
        stop(self._server)

    def __enter__(self) -> BackgroundLoad:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def service_argv(name: str) -> list[str]:
    """Return the start of a service's command line. A run does not read the files in /etc/sluice."""
    return [sys.executable, "-m", "sluice", name, "--config", os.devnull]


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
            if code is None:
                continue
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
        reap_orphans()

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
