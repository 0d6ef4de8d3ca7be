# SPDX-License-Identifier: Apache-2.0
"""One finding about this machine, and the names of the findings from which the tiers are concluded."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from sluice.policy.errors import SluiceError
from sluice.runtime.command import CommandFailed

REFUSALS = (SluiceError, CommandFailed, OSError, subprocess.SubprocessError)
"""What a machine that lacks something makes our code and its tools raise."""

DATAPATHS = "Open vSwitch datapaths"
HOOK = "setsockopt hook (cgroup BPF)"
PORT_PROGRAM = "BPF programs"
WATCH = "flow watch"


def struct_ops(control: str) -> str:
    """Return the name of the finding about a congestion control."""
    return f"{control} (struct_ops)"


class Check(NamedTuple):
    """One finding. `remedy` says what to do if it is not ok."""

    name: str
    ok: bool
    detail: str
    remedy: str


def tried(name: str, attempt: Callable[[], str], remedy: str) -> Check:
    """Return a check that is ok if the attempt raises none of REFUSALS."""
    try:
        return Check(name, True, attempt(), remedy)
    except REFUSALS as error:
        return Check(name, False, str(error), remedy)


def guarded(name: str, make: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """Yield the checks that `make` yields. Any error becomes a finding, because the doctor must reach its end."""
    try:
        yield from make()
    except Exception as error:
        what = f"the check stopped: {type(error).__name__}: {error}"
        yield Check(name, False, what, "see the findings above; if none explains it, report this line")
