# SPDX-License-Identifier: Apache-2.0
"""The run manager, as the web process starts and calls it: a process of its own that starts and lists runs."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluice.runtime.local_calls import CallFailed, call
from sluice.runtime.process import spawn, stop
from sluice.webui.errors import ApiError

log = logging.getLogger(__name__)

CALL_S = 60.0
REPORT_S = 150.0
RESTART_S = 5.0
END_S = 30.0
"""The manager's longest end: its runs write their bundles, and the testbed stops its processes."""


@dataclass
class ManagerProcess:
    """The process. All methods run in the web process's main thread, because it dies with the thread that starts it."""

    folder: Path
    simulations: int
    home: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="sluice-runs-")))
    """Of the socket. Only this user can enter it."""
    _process: subprocess.Popen[bytes] | None = None
    _started_s: float = 0.0

    @property
    def socket(self) -> Path:
        return self.home / "socket"

    def start(self) -> None:
        """Start it. It answers after a second or two."""
        argv = [sys.executable, "-m", "sluice.run_manager", "--folder", str(self.folder)]
        argv += ["--socket", str(self.socket), "--simulations", str(self.simulations)]
        self._process, self._started_s = spawn(argv), time.monotonic()

    def check(self) -> None:
        """Start it again if it has ended, but not more often than every few seconds."""
        if self._process is None or self._process.poll() is None:
            return
        if time.monotonic() - self._started_s >= RESTART_S:
            log.warning("the process of the runs has ended; starting it again")
            self.start()

    def stop(self) -> None:
        """End it and its runs in order."""
        if self._process is not None:
            stop(self._process, grace_s=END_S)
        shutil.rmtree(self.home, ignore_errors=True)


def ask(socket: Path | None, do: str, **request: Any) -> dict[str, Any]:
    """Return the manager's answer. Raises ApiError: what the manager refuses, 503 if it is away, 404 without one."""
    if socket is None:
        raise ApiError(
            404,
            "no-runs",
            "this web process has no folder of runs; start it with --runs DIR to start runs here",
        )
    try:
        answer = call(socket, {"do": do, **request}, REPORT_S if do == "report" else CALL_S)
    except CallFailed as failure:
        problem = f"the process of the runs does not answer ({failure}); try again in some seconds"
        raise ApiError(503, "runs-away", problem) from None
    error = answer.get("error")
    if error:
        raise ApiError(error["status"], error["code"], error["problem"], error["field"])
    return answer
