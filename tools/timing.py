# SPDX-License-Identifier: Apache-2.0
"""`python -m tools.timing [arguments of pytest]`: run the tests that judge real time, on a quiet machine.

One pass may be luck, and one failure a pause of the machine. So every test runs again until the confidence interval of
its share of passes lies above or below one half: after five passes, for example, or seven of eight.
"""

import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from math import comb
from pathlib import Path

import pytest

OUTCOMES = "SLUICE_TIMING_OUTCOMES"
"""Environment variable: the file to which a round adds its outcomes."""
ERROR = 0.05
MOST_ROUNDS = 20


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down an outcome. A round loads this module as a plugin of pytest."""
    if report.failed or (report.passed and report.when == "call"):
        with Path(os.environ[OUTCOMES]).open("a") as file:
            file.write(f"{report.outcome} {report.nodeid}\n")


def decided(passes: int, rounds: int) -> bool:
    """Return whether a coin would show so many passes, or so few, in fewer than ERROR of all cases."""
    most = max(passes, rounds - passes)
    return sum(comb(rounds, k) for k in range(most, rounds + 1)) / (1 << rounds) < ERROR


def run_round(arguments: Sequence[str]) -> dict[str, bool]:
    """Run tests once. Return whether each of them has passed, without those that were skipped."""
    with tempfile.NamedTemporaryFile("r") as file:
        argv = [sys.executable, "-m", "pytest", "-q", "-m", "timing", "-p", "tools.timing", *arguments]
        code = subprocess.run(argv, env={**os.environ, OUTCOMES: file.name}, check=False).returncode
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            sys.exit(code)
        lines = [line.rstrip("\n").partition(" ") for line in file]
    failed = {name for outcome, _, name in lines if outcome == "failed"}
    return {name: name not in failed for _, _, name in lines}


def main(arguments: Sequence[str]) -> int:
    """Return 0 if every test that could run has passed in most of its rounds."""
    rounds: dict[str, list[bool]] = defaultdict(list)
    chosen = list(arguments)
    for _ in range(MOST_ROUNDS):
        for name, passed in run_round(chosen).items():
            rounds[name].append(passed)
        chosen = [name for name, each in rounds.items() if not decided(sum(each), len(each))]
        if not chosen:
            break
    for name, each in sorted(rounds.items()):
        print(f"{sum(each)} of {len(each)} passed: {name}")
    return int(any(name in chosen or 2 * sum(each) < len(each) for name, each in rounds.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
