# SPDX-License-Identifier: Apache-2.0
"""The containers of this machine: the name of each by the id of its cgroup, as far as its runtime tells it there."""

import os
import re
import time
from pathlib import Path

_SHORT_DIGITS = 12
"""Runtimes print so many digits of an id in their lists."""
_BY_ID = re.compile(r"(?:(?:docker|libpod|cri-containerd|crio|nerdctl)-)?([0-9a-f]{64})(?:\.scope)?")
_BY_NAME = re.compile(r"(?:lxc\.payload\.|machine-|systemd-nspawn@)(.+?)(?:\.scope|\.service)?")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
"""How systemd writes a character that is special to it."""
_RESCAN_S = 1.0


class Containers:
    """The names below the root of the cgroups of version 2. An unknown cgroup lets it look again, once a second."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._names: dict[int, str | None] = {}
        """Id of a cgroup → the name of its container; None: it belongs to none."""
        self._looked_s = -_RESCAN_S

    def name(self, cgroup: int) -> str | None:
        """Return the name of the container, or the first digits of its id.

        None outside of containers, and for a cgroup that has ended before it was seen.
        """
        if cgroup and cgroup not in self._names and time.monotonic() - self._looked_s >= _RESCAN_S:
            folders = [Path(folder) for folder, _, _ in os.walk(self._root)]
            self._names = {inode: _container(folder) for folder in folders if (inode := _inode(folder))}
            self._looked_s = time.monotonic()
        return self._names.get(cgroup)


def _inode(folder: Path) -> int:
    try:
        return folder.stat().st_ino
    except OSError:  # it has just ended
        return 0


def _container(folder: Path) -> str | None:
    """Return the container of a cgroup: the outermost one, if one contains another."""
    for part in folder.parts:
        if by_id := _BY_ID.fullmatch(part):
            return by_id[1][:_SHORT_DIGITS]
        if by_name := _BY_NAME.fullmatch(part):
            name = _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), by_name[1])[:64]
            return name if name.isprintable() else None
    return None
