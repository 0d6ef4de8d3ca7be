# SPDX-License-Identifier: Apache-2.0
"""What a test gives a process: a small disk, and failing power."""

import errno
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_BLOCK = b"\0" * 4096


@dataclass
class SmallDisk:
    """`prefix` starts a command that sees the disk at `folder`. `of` gives the disk to the test."""

    folder: Path
    size: str = "2m"

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)

    @property
    def prefix(self) -> list[str]:
        """The command line that mounts the disk and becomes the command after it."""
        mount = f'mount -t tmpfs -o size={self.size} none {self.folder} && exec "$@"'
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh"]

    def of(self, pid: int) -> Path:
        """Return the folder as the process sees it."""
        return Path(f"/proc/{pid}/root{self.folder}")

    def fill(self, pid: int) -> None:
        """Take the last byte of the disk."""
        with (self.of(pid) / "filling").open("ab", buffering=0) as file:
            while True:
                try:
                    file.write(_BLOCK)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    return

    def make_room(self, pid: int) -> None:
        """Give the space back."""
        (self.of(pid) / "filling").unlink()


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
