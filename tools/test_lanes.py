# SPDX-License-Identifier: Apache-2.0
"""Run all tests, in lanes that share the machine. Options are passed to each pytest.

The real-time lane has the tiers kernel, net, web and pg. They mostly wait, so several of their files run at once.
Tests that are marked `alone` measure times or rates, so they follow one by one, and the tier api comes last. The
processor lane has the tiers unit and sim. It has the lowest priority, and uses the CPU time that the other lane leaves.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

ROOT = Path(__file__).parents[1]
REAL_TIME = ("tests/kernel", "tests/net", "tests/web", "tests/pg")
PROCESSOR = ("tests/unit", "tests/sim")
API = ("tests/api",)
"""Its cases are computed from the API's document when pytest collects them, so they have a pytest of their own."""
FILES_AT_ONCE = 2
"""Test files of the real-time lane: more would disturb each other on two cores."""
NO_TESTS = 5
"""Exit code of pytest if its options select no test."""
POLL_S = 0.2
GRACE_S = 30.0


@dataclass(frozen=True)
class Lane:
    """Runs of pytest, one after the other."""

    name: str
    nice: int
    runs: tuple[tuple[str, ...], ...]

    def command(self, number: int, options: Sequence[str]) -> list[str]:
        """The command of one of the runs."""
        pytest = [sys.executable, "-m", "pytest", "-q", *self.runs[number], *options]
        return ["nice", "-n", str(self.nice), *pytest]


def lanes(cores: int) -> tuple[Lane, ...]:
    """The lanes for a machine with so many cores."""
    together = ("-n", str(FILES_AT_ONCE), "--dist", "loadfile", "-m", "not alone", *REAL_TIME)
    computing = ("-n", str(cores), "--dist", "worksteal", "-m", "not alone", *PROCESSOR)
    return (
        Lane("real time", 0, (together, ("-m", "alone", *REAL_TIME, *PROCESSOR), API)),
        Lane("processor", 19, (computing,)),
    )


class RunningLane:
    """A running lane. Its output goes to a file, because the output of several lanes at once would be mixed."""

    def __init__(self, lane: Lane, options: Sequence[str], folder: Path) -> None:
        self._lane, self._options, self._log = lane, options, folder / f"{lane.name}.log"
        self._started = 0
        self._began_s = time.monotonic()
        self._took_s = 0.0
        self.failed = False
        self._process = self._start_next()

    def poll(self) -> bool:
        """Start the next run if one has ended. Return whether runs are left."""
        code = self._process.poll()
        if code is None:
            return True
        self.failed |= code not in (0, NO_TESTS)
        if self._started == len(self._lane.runs):
            self._took_s = self._took_s or time.monotonic() - self._began_s
            return False
        self._process = self._start_next()
        return True

    def _start_next(self) -> subprocess.Popen[bytes]:
        """Start a run in a process group, so that Ctrl-C reaches it only from here.

        It has no session of its own, because Linux shares the CPU between sessions and ignores `nice` there.
        """
        command = self._lane.command(self._started, self._options)
        self._started += 1
        with self._log.open("ab") as output:
            return subprocess.Popen(
                command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, process_group=0
            )

    def open_log(self) -> BinaryIO:
        """The lane's output so far, and while it grows."""
        return self._log.open("rb")

    def end(self) -> None:
        """Interrupt the run, as Ctrl-C does, and wait for its clean-up."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)
            try:
                self._process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()

    def report(self) -> str:
        """One line about the ended lane."""
        verdict = "failed" if self.failed else "passed"
        return f"── {self._lane.name}: {verdict} after {self._took_s:.0f} s ──"


def main(options: Sequence[str]) -> int:
    """Return the exit status: 1 if a test failed in any lane, 130 after Ctrl-C."""
    with tempfile.TemporaryDirectory(prefix="sluice-tests-") as folder:
        running = [RunningLane(lane, options, Path(folder)) for lane in lanes(os.cpu_count() or 1)]
        try:
            for lane in running:
                _show(lane, running)
        except KeyboardInterrupt:
            for lane in running:
                lane.end()
            return 130
    return int(any(lane.failed for lane in running))


def _show(lane: RunningLane, running: Sequence[RunningLane]) -> None:
    """Print the output of one lane until it has ended, and keep all of them running."""
    with lane.open_log() as output:
        left = True
        while left:
            left = [other.poll() for other in running][running.index(lane)]
            sys.stdout.buffer.write(output.read())
            sys.stdout.flush()
            if left:
                time.sleep(POLL_S)
    print(lane.report(), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
