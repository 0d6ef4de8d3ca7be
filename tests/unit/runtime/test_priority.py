# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sluice.runtime.priority import HOST_NICE, Priority, allowed, raised

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may raise a process")
_SHOW = "import os; print(os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))"
_TAKE = "from sluice.runtime.priority import allowed, take; print(allowed().name, take(-15).name);" + _SHOW
_NO_REALTIME = """
import os
def refuse(*_): raise PermissionError
os.sched_setscheduler = refuse
"""
"""As in a container on a kernel with real-time groups."""
_LOWERED = ["setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice"]


def output(argv: list[str]) -> list[str]:
    done = subprocess.run(argv, capture_output=True, text=True, check=True, start_new_session=True)
    return done.stdout.split()


@needs_root
@pytest.mark.parametrize(
    ("prefix", "before", "expected"),
    [
        ([], "", Priority.REALTIME),
        ([], _NO_REALTIME, Priority.NICE),
        (_LOWERED, "", Priority.ORDINARY),
    ],
)
def test_take__the_best_that_this_place_allows(prefix: list[str], before: str, expected: Priority) -> None:
    told, taken, scheduler, nice = output([*prefix, sys.executable, "-c", before + _TAKE])
    assert (told, taken) == (expected.name, expected.name)
    assert int(scheduler) & os.SCHED_RR == (os.SCHED_RR if expected is Priority.REALTIME else 0)
    assert int(nice) == (HOST_NICE if expected is Priority.NICE else 0)


@needs_root
def test_allowed__leaves_this_process_as_it_is() -> None:
    before = os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
    assert allowed() is Priority.REALTIME
    assert (os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)) == before


@needs_root
@pytest.mark.parametrize(
    ("priority", "expected"),
    [(Priority.REALTIME, ["2", "0"]), (Priority.NICE, ["0", "-20"]), (Priority.ORDINARY, ["0", "0"])],
)
def test_raised__runs_the_command(priority: Priority, expected: list[str]) -> None:
    assert output(raised([sys.executable, "-c", _SHOW], priority, -20)) == expected
