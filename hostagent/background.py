# SPDX-License-Identifier: Apache-2.0
"""Long flows beside the workload: iperf 2 between two hosts, with the scheme's congestion control on both ends.

They are no part of a run's result; their throughput is measured where it arrives, by the iperf server's reports.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime.process import stop

FIRST_PORT = 5100
"""Loads to one host listen on ports of their own, from here on; the agents' own is 5001."""
REPORT_S = 1
_FOREVER_S = 30 * 24 * 3600
_CSV_FIELDS = 9

Spawn = Callable[[str, Sequence[str], Path], "subprocess.Popen[bytes]"]
"""Starts a command on a host, its output appended to a file."""


@dataclass(frozen=True)
class Load:
    """One long flow."""

    source: str
    to: str
    address: str
    """Of `to`."""
    congestion_control: str | None
    """None: the hosts' default."""
    rate_bps: int | None = None
    """None: as much as it gets."""
    port: int = FIRST_PORT


@dataclass(frozen=True)
class Interval:
    """What arrived between two moments, in seconds from the flow's start."""

    start_s: float
    end_s: float
    bytes: int

    @property
    def rate_bps(self) -> float:
        return 8 * self.bytes / (self.end_s - self.start_s)


def server_argv(load: Load) -> list[str]:
    """stdbuf: else iperf keeps its reports until it ends."""
    return ["stdbuf", "-oL", "iperf", "-s", "-p", str(load.port), *_common(load)]


def client_argv(load: Load) -> list[str]:
    argv = ["stdbuf", "-oL", "iperf", "-c", load.address, "-p", str(load.port), *_common(load)]
    argv += ["-t", str(_FOREVER_S), "--connect-retries", "10"]
    return argv if load.rate_bps is None else [*argv, "-b", str(load.rate_bps)]


def _common(load: Load) -> list[str]:
    control = [] if load.congestion_control is None else ["-Z", load.congestion_control]
    return ["-i", str(REPORT_S), "-y", "C", *control]


def parse_report(text: str) -> list[Interval]:
    """The periodic lines of iperf's CSV; its last line, a sum over the whole run, and torn lines are left out."""
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
    """A running load: a context manager. Output of both ends goes to files in `folder`."""

    def __init__(self, spawn: Spawn, load: Load, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.load = load
        self._report = folder / f"iperf-{load.source}-{load.to}-{load.port}.csv"
        self._report.unlink(missing_ok=True)
        self._server = spawn(load.to, server_argv(load), self._report)
        client_log = self._report.with_suffix(".client.csv")
        self._client = spawn(load.source, client_argv(load), client_log)

    def intervals(self) -> list[Interval]:
        """What has arrived, second by second; empty before the first second is over."""
        return parse_report(self._report.read_text()) if self._report.exists() else []

    def rate_bps(self, last: int = 5) -> float | None:
        """Mean rate of arrival over the last seconds; None as long as nothing has been reported."""
        intervals = self.intervals()[-last:]
        if not intervals:
            return None
        return sum(8 * i.bytes for i in intervals) / sum(i.end_s - i.start_s for i in intervals)

    def running(self) -> bool:
        """Both ends are alive."""
        return self._server.poll() is None and self._client.poll() is None

    def stop(self) -> None:
        """Stop the sender, then the receiver. Stopping twice changes nothing."""
        stop(self._client)
        stop(self._server)

    def __enter__(self) -> BackgroundLoad:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
