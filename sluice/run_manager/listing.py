# SPDX-License-Identifier: Apache-2.0
"""The list of runs, and reports over chosen ones, for the web process."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sluice.policy.errors import FieldError, SluiceError
from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.run_manager.manager import LOG, RunManager
from sluice.run_manager.plans import scenario_names
from sluice.run_manager.refusal import Refusal
from sluice.runs.folder import LOST, MOST_COMPARED, Entry, bundles, describe, entries, entry_of
from sluice.runs.progress_file import RUNNING

REPORT_S = 120.0
LAST_BYTES = 2000


class Listing:
    """Reads the folder of runs. Finished runs and sweeps do not change, so their descriptions are kept."""

    def __init__(self, manager: RunManager) -> None:
        self._manager = manager
        self._known: dict[Entry, dict[str, Any]] = {}
        self._reading, self._reporting = threading.Lock(), threading.Lock()

    def document(self) -> dict[str, Any]:
        """Return all runs, and what can be started."""
        with self._reading:
            found = entries(self._manager.folder)
            documents = [self._described(entry) for entry in found]
            self._known = {entry: self._known[entry] for entry in found if entry in self._known}
        fabrics = [{"name": on, "problem": self._manager.obstacle(on)} for on in (SIMULATOR, TESTBED)]
        return {"runs": documents, "scenarios": scenario_names(), "fabrics": fabrics}

    def _described(self, entry: Entry) -> dict[str, Any]:
        own = self._manager.states().get(entry.name)
        known = self._known.get(entry)
        if known and own is None:
            return known
        document = {**describe(entry), "own": own is not None}
        if own:
            document["state"] = own
        elif document["state"] == LOST and not document["reason"]:
            document["reason"] = _last_line(entry.path / LOG)
        if own is None and document["state"] != RUNNING:
            self._known[entry] = document
        return document

    def report(self, names: Sequence[str], baseline: str | None) -> str:
        """Return the HTML page that compares runs. Raises SluiceError; Refusal while another report is made."""
        chosen = [bundle for name in names for bundle in bundles(entry_of(self._manager.folder, name))]
        if not chosen:
            raise FieldError("run", "these runs have no finished bundle; choose runs that are done")
        if len(chosen) > MOST_COMPARED:
            raise FieldError(
                "run", f"{len(chosen)} bundles are too many for one report; at most {MOST_COMPARED}"
            )
        if not self._reporting.acquire(blocking=False):
            raise Refusal("busy", "another report is being made; try again in some seconds")
        try:
            return _compared(chosen, baseline)
        finally:
            self._reporting.release()


def _compared(chosen: Sequence[Path], baseline: str | None) -> str:
    """Return the report of a process of its own, so that it cannot take the manager's memory or time."""
    with tempfile.TemporaryDirectory(prefix="sluice-report-") as folder:
        out = Path(folder) / "report.html"
        argv = [sys.executable, "-m", "sluice", "compare", *map(str, chosen), "--out", str(out)]
        argv += [f"--baseline={baseline}"] if baseline else []
        try:
            done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=REPORT_S)
        except subprocess.TimeoutExpired:
            raise SluiceError(f"the report takes longer than {REPORT_S:.0f} s: choose fewer runs") from None
        if done.returncode:
            raise SluiceError((done.stderr.strip() or "no report").splitlines()[-1])
        return out.read_text()


def _last_line(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LAST_BYTES))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1][:400] if lines else ""
