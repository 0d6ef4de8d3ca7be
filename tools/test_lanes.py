# SPDX-License-Identifier: Apache-2.0
"""Runs the whole test suite in two lanes that share the machine: `make test`.

The lane of real time has the tiers that measure: kernel, net, web, pg. Several of their files run at once, because most
of their time is waiting. The lane of the processor has the tiers unit and sim, with the lowest priority: it uses what
the other lane leaves.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS_FAILED = 1
POLL_S = 0.2
GRACE_S = 30.0


@dataclass(frozen=True)
class Lane:
    """A group of tiers, in one pytest of several workers."""

    name: str
    tiers: tuple[str, ...]
    workers: int
    nice: int

    def argv(self) -> list[str]:
        tests = [f"tests/{tier}" for tier in self.tiers]
        spread = ["-n", str(self.workers), "--dist", "loadfile"]
        return ["nice", "-n", str(self.nice), sys.executable, "-m", "pytest", "-q", *spread, *tests]


def lanes(cores: int) -> tuple[Lane, ...]:
    return (
        Lane("real time", ("kernel", "net", "web", "pg"), workers=3, nice=0),
        Lane("processor", ("unit", "sim"), workers=cores, nice=19),
    )


def main() -> int:
    """Exit code 1 if a test failed in any lane."""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sluice-tests-") as folder:
        running = [_start(lane, Path(folder)) for lane in lanes(os.cpu_count() or 1)]
        try:
            codes = [_ended(lane, process, log, began_s) for lane, process, log in running]
        except KeyboardInterrupt:
            for _, process, _ in running:
                _end(process)
            return 130
    return TESTS_FAILED if any(codes) else 0


def _start(lane: Lane, folder: Path) -> tuple[Lane, subprocess.Popen[bytes], Path]:
    """Each lane is a group of processes of its own, so that Ctrl-C reaches it once, from here."""
    log = folder / f"{lane.name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            lane.argv(), cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    return lane, process, log


def _ended(lane: Lane, process: subprocess.Popen[bytes], log: Path, began_s: float) -> int:
    """Show the lane's output while it comes; returns its exit code."""
    print(f"── {lane.name}: {', '.join(lane.tiers)} ──", flush=True)
    with log.open("rb") as output:
        while True:
            ended = process.poll() is not None
            sys.stdout.buffer.write(output.read())
            sys.stdout.flush()
            if ended:
                break
            time.sleep(POLL_S)
    print(f"── {lane.name}: exit code {process.returncode} after {time.monotonic() - began_s:.0f} s ──")
    return process.returncode


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
