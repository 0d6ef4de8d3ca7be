# SPDX-License-Identifier: Apache-2.0
"""`python -m tools.tiers [arguments of pytest]`: run the tests of every tier.

Tests on real time wait most of the time. The tests that compute run beside them at the lowest priority: the kernel
gives them the processor time that is left. Their output follows at the end. Paths among the arguments select tests of
every tier, for example `tests/web/test_api_page.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from runtime.process import die_with_parent
from runtime.wait import PATIENCE, patient

LOWEST_PRIORITY = ("nice", "-n", "19", "chrt", "--idle", "0")
NO_TEST_SELECTED = 5
"""Status of pytest if the arguments select no test."""
PATIENCE_BESIDE = 3
"""How many times longer a test beside the others waits before a wait is lost, because it may get no time."""
LOOK_S = 0.2
MEMORY, ROOM_BYTES = Path("/dev/shm"), 4 << 30


@dataclass(frozen=True)
class Tier:
    """Files and folders with tests, and how pytest runs them."""

    places: tuple[str, ...]
    options: tuple[str, ...]

    def command(self, arguments: Sequence[str]) -> list[str] | None:
        """Return the command, or None if the arguments name only files of other tiers."""
        paths = [argument for argument in arguments if argument.startswith("tests/")]
        others = [argument for argument in arguments if argument not in paths]
        chosen = [path for path in paths if any(_inside(path, place) for place in self.places)]
        chosen += [
            place for place in self.places if any(_inside(place, path) and place != path for path in paths)
        ]
        if not (chosen if paths else self.places):
            return None
        return [sys.executable, "-m", "pytest", "-q", *self.options, *(chosen or self.places), *others]


def _inside(path: str, place: str) -> bool:
    return Path(path.partition("::")[0]).is_relative_to(place)


def marked(mark: str) -> tuple[str, ...]:
    """Return the files that use a mark. Pytest would read all the others, too."""
    return tuple(
        str(path) for path in sorted(Path("tests").rglob("test_*.py")) if f"mark.{mark}" in path.read_text()
    )


QUIET = Tier(marked("quiet"), ("-m", "quiet"))
# Two files at once use the machine and still measure it.
ON_REAL_TIME = (
    Tier(
        ("tests/kernel", "tests/net", "tests/web", "tests/pg"),
        ("-n", "2", "--dist", "loadfile", "-m", "not alone and not quiet"),
    ),
    Tier(marked("alone"), ("-m", "alone")),
)
COMPUTING = Tier(
    ("tests/api", "tests/unit", "tests/sim", "tests/kernels/test_loads.py"),
    ("-n", "logical", "--dist", "worksteal", "-m", "not alone"),
)


def main(arguments: Sequence[str]) -> int:
    """Return 0 if every test has passed, otherwise 1."""
    with tempfile.TemporaryDirectory(prefix="t", dir=memory()) as folder, ExitStack() as started:
        Path(folder).chmod(0o755)  # PostgreSQL runs as another user
        environment = {**os.environ, "TMPDIR": folder}
        try:
            codes = [run(QUIET.command(arguments), environment)]
            command = COMPUTING.command(arguments)
            computing = command and started.enter_context(
                Beside(command, environment, Path(folder, "output"))
            )
            codes += [run(tier.command(arguments), environment) for tier in ON_REAL_TIME]
            codes += [computing.follow()] if computing else []
        except KeyboardInterrupt:  # every process of the terminal gets the signal
            return 130
    return int(any(code not in (0, NO_TEST_SELECTED) for code in codes))


def memory() -> Path | None:
    """Return a folder in memory for the tests' files, because a disk would be slower. None: the default folder."""
    return MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM_BYTES else None


def run(command: Sequence[str] | None, environment: Mapping[str, str]) -> int:
    """Run a tier to its end, after Ctrl-C too, because its tests remove what they made. Returns its status."""
    if command is None:
        return NO_TEST_SELECTED
    print(f"── {' '.join(command)} ──", flush=True)
    process = subprocess.Popen(command, env=environment, preexec_fn=die_with_parent)
    try:
        return process.wait()
    finally:
        process.wait()


class Beside:
    """A tier at the lowest priority. Its output waits in a file for `follow`. Leaving the context waits for its end."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], output: Path) -> None:
        self._output = output
        output.write_text(f"── {' '.join(command)} ── at the lowest priority, beside the others:\n")
        environment = {**environment, PATIENCE: str(patient(PATIENCE_BESIDE))}
        with output.open("ab") as file:
            self._process = subprocess.Popen(
                [*LOWEST_PRIORITY, *command],
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                preexec_fn=die_with_parent,
            )

    def follow(self) -> int:
        """Print what the tier has written and still writes, until it ends. Returns its status."""
        with self._output.open() as lines:
            ended = False
            while not ended:
                ended = self._process.poll() is not None
                sys.stdout.write(lines.read())
                sys.stdout.flush()
                time.sleep(0 if ended else LOOK_S)
        return self._process.returncode

    def __enter__(self) -> Beside:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
