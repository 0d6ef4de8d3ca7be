# SPDX-License-Identifier: Apache-2.0
"""A disk that a test can fill: a small tmpfs in a mount namespace that one process has to itself."""

from __future__ import annotations

import errno
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
