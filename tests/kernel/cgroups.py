# SPDX-License-Identifier: Apache-2.0
"""The test's own control group. A hook there runs before that of an agent elsewhere on the machine."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from sluice.dataplane.sockopt import cgroup_root
from sluice.runtime.wait import wait_until

_numbers = itertools.count()


class Cgroup:
    """While the group is open, this process and its new children are in it. A socket keeps its group."""

    def __init__(self) -> None:
        root = cgroup_root()
        own = next(
            line for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")
        )
        self._before = root / own.removeprefix("0::").lstrip("/")
        self.folder = root / f"sluice-test-{os.getpid()}-{next(_numbers)}"
        self.folder.mkdir()

    def __enter__(self) -> Cgroup:
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))
        return self

    def __exit__(self, *_: object) -> None:
        (self._before / "cgroup.procs").write_text(str(os.getpid()))
        wait_until(self._removed, "the children have left the control group")

    def _removed(self) -> bool:
        try:
            self.folder.rmdir()
        except OSError:
            return False
        return True
