# SPDX-License-Identifier: Apache-2.0
"""How busy this machine's cores are."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Ticks(NamedTuple):
    """Time of all cores together since boot, in clock ticks."""

    busy: int
    total: int


def machine_ticks() -> Ticks:
    """Return the busy ticks and all ticks of all cores.

    Time that a hypervisor took counts as busy, because the run could not use it. Time of processes
    with a lower priority ("nice") does not, because the run could have used it.
    """
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    _, nice, _, idle, waiting, *_ = ticks
    return Ticks(sum(ticks) - idle - waiting - nice, sum(ticks))
