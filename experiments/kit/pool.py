# SPDX-License-Identifier: Apache-2.0
"""Many short runs on the simulator: a second or less each, so one process makes many of them.

A sweep (sluice/sweep) starts a process for each of its points and can hand them to a cluster; that
takes two seconds a point, more than such a run. Points, folders and bundles are the same."""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from rich.progress import track

from policy.errors import SluiceError
from policy.scenario import scenario_from_document
from runtime.process import die_with_parent
from simulator import build
from sluice.runs.files import load_cdf
from sluice.runs.simulator_run import run_on_simulator
from sluice.sweep.points import Point
from sluice.sweep.run import is_finished
from sluice.terminal import console


def run_all(points: Sequence[Point], out: Path, jobs: int | None = None) -> None:
    """Run every point that `out` has no bundle of; `jobs` at a time, None: one a core.

    Ctrl-C lets those that run end, and keeps them. SluiceError names the points that failed, after all have been tried.
    """
    waiting = [point for point in points if not is_finished(out, point)]
    if not waiting:
        return
    build.build()
    failed: dict[str, str] = {}
    with _workers(jobs) as pool:
        running: dict[Future[str | None], Point] = {
            pool.submit(_run, point.document, out / point.name): point for point in waiting
        }
        try:
            ended = as_completed(running)
            for future in track(ended, "runs", total=len(waiting), console=console):
                if reason := future.result():
                    failed[running[future].name] = reason
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise
    if failed:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
        raise SluiceError(f"{len(failed)} of {len(waiting)} runs failed: {reasons}")


def _workers(jobs: int | None) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        jobs or len(os.sched_getaffinity(0)),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
    )


def _begin() -> None:
    """A worker leaves Ctrl-C to the process that started it, and dies with that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()


def _run(document: dict[str, Any], out: Path) -> str | None:
    """Why it failed, in words: an exception of several arguments does not survive the way to another process."""
    try:
        run_on_simulator(scenario_from_document(document, load_cdf), document, out)
    except SluiceError as error:
        return str(error)
    except Exception:
        return traceback.format_exc()
    return None


Column = npt.NDArray[Any]


@dataclass(frozen=True)
class Flows:
    """What the figures of a run are made of: one place a flow, in the order of their ends."""

    size_class: Column
    bytes: Column
    started_s: Column
    fct_us: Column
    """nan: not finished."""

    def of(self, chosen: Column) -> Flows:
        return Flows(*(column[chosen] for column in vars(self).values()))


def read_flows(bundle: Path) -> Flows:
    """Every scheduled flow of a bundle."""
    names = ("size_class", "bytes", "started_at", "fct_us")
    table = pq.read_table(bundle / "flows.parquet", columns=list(names))
    return Flows(*(table.column(name).to_numpy() for name in names))


def percentile(values: Column, percent: float) -> float:
    return float(np.percentile(values, percent))
