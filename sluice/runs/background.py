# SPDX-License-Identifier: Apache-2.0
"""Long background flows: iperf 2 between two hosts, with the scheme's congestion control on both ends.

They are no part of a run's result. The reports of the iperf server measure their throughput at the receiver.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice.runtime.process import stop

FIRST_PORT = 5100
"""The first port of background flows; each flow to a host has its own port. The agents use wire.PORT."""
REPORT_S = 1
_FOREVER_S = 30 * 24 * 3600
_CSV_FIELDS = 9

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


@dataclass(frozen=True)
class Interval:
    """The bytes that arrived between two times, in seconds from the flow's start."""

    start_s: float
    end_s: float
    bytes: int

    @property
    def rate_bps(self) -> float:
        return 8 * self.bytes / (self.end_s - self.start_s)


def server_argv(load: Load) -> list[str]:
    """Return the receiver's command. Without stdbuf, iperf would print its reports only at its end."""
    return ["stdbuf", "-oL", "iperf", "-s", "-p", str(load.port), *_common(load)]


def client_argv(load: Load) -> list[str]:
    """Return the sender's command."""
    argv = ["stdbuf", "-oL", "iperf", "-c", load.address, "-p", str(load.port), *_common(load)]
    argv += ["-t", str(_FOREVER_S), "--connect-retries", "10"]
    return argv if load.rate_bps is None else [*argv, "-b", str(load.rate_bps)]


def _common(load: Load) -> list[str]:
    control = [] if load.congestion_control is None else ["-Z", load.congestion_control]
    return ["-i", str(REPORT_S), "-y", "C", *control]


def parse_report(text: str) -> list[Interval]:
    """Return the intervals of iperf's CSV report, without the sum at its end and without incomplete lines."""
    intervals: list[Interval] = []
    for line in text.splitlines():
        fields = line.split(",")
        if len(fields) != _CSV_FIELDS:
            continue
        start_s, end_s = map(float, fields[6].split("-"))
        if end_s > start_s and not (start_s == 0 and intervals):
            intervals.append(Interval(start_s, end_s, int(fields[7])))
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

    def intervals(self) -> list[Interval]:
        """Return the bytes that arrived, second by second; empty in the first second."""
        return parse_report(self._report.read_text()) if self._report.exists() else []

    def rate_bps(self, last: int = 5) -> float | None:
        """Return the mean rate of arrival over the last seconds; None before the first report."""
        intervals = self.intervals()[-last:]
        if not intervals:
            return None
        return sum(8 * i.bytes for i in intervals) / sum(i.end_s - i.start_s for i in intervals)

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
