# SPDX-License-Identifier: Apache-2.0
"""Pools of processes. The module imports little, because each process of a pool imports it."""

import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor

from sluice.runtime.process import die_with_parent


def worker_processes(count: int | None = None) -> ProcessPoolExecutor:
    """Return a pool of processes that end with this one; None means one for each core."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(count or len(os.sched_getaffinity(0)), context, _begin)


def _begin() -> None:
    """Let the worker ignore Ctrl-C, which its parent handles, and end with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
