# SPDX-License-Identifier: Apache-2.0
"""What all parts of the benchmark use: a line of its table, a median, and a network namespace of its own."""

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sluice.runtime.command import run

ROUNDS = 5


@dataclass(frozen=True)
class Result:
    """One line of the table. `baseline` was measured in the same run; ratio = value / baseline.

    If the two took turns, `paired_ratio` is the median of the ratios of neighbouring measurements,
    which is steadier.
    """

    name: str
    value: float
    unit: str
    baseline: float | None = None
    baseline_name: str = ""
    paired_ratio: float | None = None

    @property
    def ratio(self) -> float | None:
        if self.paired_ratio is not None:
            return self.paired_ratio
        return self.value / self.baseline if self.baseline else None


def median_s(work: Callable[[], object]) -> float:
    """Return the median time of ROUNDS calls."""
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def in_own_network(module: str, *words: str, timeout_s: float) -> Any:
    """Run a module with these words in a network namespace of its own, so that no interfaces remain.

    Returns the JSON that it prints. Raises CommandFailed.
    """
    argv = ["unshare", "--net", "--fork", "--kill-child", sys.executable, "-m", module, *words]
    return json.loads(run(argv, timeout_s=timeout_s))
