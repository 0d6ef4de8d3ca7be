# SPDX-License-Identifier: Apache-2.0
"""What all parts of the benchmark use: lines of its table, medians, fixed rates, and a network namespace of its own."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from sluice.policy.errors import SluiceError
from sluice.runtime.command import run
from sluice.runtime.http_client import HttpClient, ServerAway

ROUNDS = 5
WEB_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Result:
    """One line of the table. `baseline` was measured in the same run; ratio = value / baseline.

    If the two took turns, `paired_ratio` is the median of the ratios of neighbouring measurements,
    which is steadier.
    """

    name: str
    value: float
    unit: str
    baseline: float | None = None
    baseline_name: str = ""
    paired_ratio: float | None = None

    @property
    def ratio(self) -> float | None:
        if self.paired_ratio is not None:
            return self.paired_ratio
        return self.value / self.baseline if self.baseline else None


def median_ratio(values: Sequence[float], baselines: Sequence[float]) -> float:
    """Return the median of the ratios of neighbouring measurements. Other load on the machine slows both."""
    return statistics.median(value / baseline for value, baseline in zip(values, baselines, strict=True))


def seconds_of(work: Callable[[], object]) -> float:
    """Return how long a call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def median_s(work: Callable[[], object]) -> float:
    """Return the median time of ROUNDS calls."""
    return statistics.median(seconds_of(work) for _ in range(ROUNDS))


def percentiles(values: Sequence[float], *percents: float) -> list[float]:
    return [float(value) for value in np.percentile(values, percents)]


def wait_for(due: float) -> None:
    """Sleep until a monotonic time. The fixed rate is the point of these measurements."""
    time.sleep(max(0.0, due - time.monotonic()))


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used, over all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def with_children(pid: int) -> list[int]:
    """Return a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def memory_bytes(pids: Sequence[int]) -> int:
    """Return the resident memory of processes."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_kib(pid: int) -> float:
    """Return the most resident memory that a process has used so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def web_answers(url: str, process: subprocess.Popen[bytes], log_file: Path) -> bool:
    """Whether a web process answers. SluiceError with its log: it has ended."""
    if process.poll() is not None:
        raise SluiceError(f"the web process ended; its log:\n{log_file.read_text(errors='replace')}")
    with closing(HttpClient(url, WEB_TIMEOUT_S)) as web, suppress(ServerAway):
        return web.get("/api/v1/health").ok
    return False


def in_turn(rounds: int, *ways: Callable[[], float]) -> list[list[float]]:
    """Return for each way what it measures in each round. Every second round begins with the last way, so that the
    machine's other work meets all of them alike."""
    measured: list[list[float]] = [[] for _ in ways]
    for number in range(rounds):
        for way, values in list(zip(ways, measured, strict=True))[:: -1 if number % 2 else 1]:
            values.append(way())
    return measured


def in_own_process(
    work: Callable[..., object], *arguments: object, prefix: Sequence[str] = (), timeout_s: float = 3600
) -> Any:
    """Return what a function of a module returns in a process of its own. Arguments and result can be JSON.

    `prefix`: words before its command line. Raises CommandFailed.
    """
    argv = [sys.executable, "-m", __name__, work.__module__, work.__name__, json.dumps(arguments)]
    return json.loads(run([*prefix, *argv], timeout_s=timeout_s))


def in_own_network(work: Callable[[], object], timeout_s: float = 300) -> Any:
    """Return the same of a process in a network namespace of its own, so that no interfaces remain."""
    return in_own_process(work, prefix=("unshare", "--net", "--fork", "--kill-child"), timeout_s=timeout_s)


if __name__ == "__main__":
    function = getattr(import_module(sys.argv[1]), sys.argv[2])
    print(json.dumps(function(*json.loads(sys.argv[3]))))
