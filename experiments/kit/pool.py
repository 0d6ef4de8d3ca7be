# SPDX-License-Identifier: Apache-2.0
"""Many short runs on the simulator, of a second or less each. One process makes many of them.

A sweep (sluice/sweep) starts a process for each point, and can give points to a cluster. That
takes two seconds for each point, more than such a run. Points, folders and bundles are the
same.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from rich.progress import track

from sluice.policy.errors import SluiceError
from sluice.runs.files import resolve
from sluice.runs.simulator_run import run_on_simulator
from sluice.runtime.process import die_with_parent
from sluice.simulator import build
from sluice.sweep.points import Point, is_finished
from sluice.terminal import console


def run_all(points: Sequence[Point], out: Path, jobs: int | None = None) -> None:
    """Make every run that has no bundle in `out`, `jobs` at a time; None means one for each core.

    After Ctrl-C, the active runs end and are kept. SluiceError names the failed runs, after all
    have been tried.
    """
    waiting = [point for point in points if not is_finished(out, point)]
    if not waiting:
        return
    build.build()
    with _workers(jobs) as pool:
        running = {pool.submit(_run, point.document, out / point.name): point for point in waiting}
        try:
            failed = _reasons(running)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise
    if failed:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
        raise SluiceError(f"{len(failed)} of {len(waiting)} runs failed: {reasons}")


def _reasons(running: dict[Future[str | None], Point]) -> dict[str, str]:
    """Wait for all runs. Returns name of a failed run → why it failed."""
    ended = track(as_completed(running), "runs", total=len(running), console=console)
    return {running[future].name: reason for future in ended if (reason := future.result())}


def _workers(jobs: int | None) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        jobs or len(os.sched_getaffinity(0)),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
    )


def _begin() -> None:
    """Let the worker ignore Ctrl-C, which its parent handles, and end with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()


def _run(document: dict[str, Any], out: Path) -> str | None:
    """Run one scenario. Returns why it failed, as text; None if it did not.

    It returns text because an exception with several arguments cannot be passed to another
    process.
    """
    try:
        run_on_simulator(resolve(document), out)
    except SluiceError as error:
        return str(error)
    except Exception:
        return traceback.format_exc()
    return None
