# SPDX-License-Identifier: Apache-2.0
"""A power failure under test: a process is killed, and only what it had synced is left (power.c)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_SOURCE = Path(__file__).with_name("power.c")


@dataclass
class Device:
    """A folder of files, and what of them has reached the device."""

    folder: Path

    def __post_init__(self) -> None:
        self.files = self.folder / "files"
        self._synced = self.folder / "synced"
        self._layer = self.folder / "power.so"
        for made in (self.files, self._synced):
            made.mkdir(parents=True)
        argv = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(self._layer), str(_SOURCE)]
        subprocess.run(argv, check=True)

    def fail_during(self, program: str, lines: int) -> list[str]:
        """Run a Python program with the folder as its argument. Cut the power once it has printed so many lines.

        Returns the lines. Afterwards `files` holds what was synced by then, and nothing else.
        """
        env = {**os.environ, "LD_PRELOAD": str(self._layer), "SYNCED": str(self._synced)}
        argv = [sys.executable, "-c", program, str(self.files)]
        with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            printed = [process.stdout.readline().strip() for _ in range(lines)]
            process.kill()
        shutil.rmtree(self.files)
        self._synced.rename(self.files)
        return printed
