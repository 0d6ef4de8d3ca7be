# SPDX-License-Identifier: Apache-2.0
"""The share of Sluice's congestion controls in the CPU time of a flow at full speed, by the kernel's clock for BPF.

Throughput beside cubic varies by more than a control costs. This share is an upper bound of the loss, because cubic
costs something, too. The module runs itself again under `unshare --net` and measures there.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Mapping

from sluice.bench.tagger import LINKS, kernel_statistics
from sluice.bench.throughput import Throughput, children_cpu_s, far_end, transfer
from sluice.dataplane.congestion import ours, register_congestion_control
from sluice.policy.errors import EnvironmentLacking
from sluice.runtime.command import CommandFailed, run

ROUNDS = 3


def measure_control_share() -> Mapping[str, float]:
    """Return the median share (0 … 1) of the CPU time that both ends of a flow use, by control and kind of link.

    Raises EnvironmentLacking if another process has registered a control, because its use could not be told apart.
    """
    argv = ["unshare", "--net", "--fork", "--kill-child", sys.executable, "-m", __name__]
    try:
        found = json.loads(run(argv, timeout_s=600))
    except CommandFailed as error:
        raise EnvironmentLacking(f"the cost of congestion controls: {error.output.strip()}") from error
    return {name: statistics.median(shares) for name, shares in found.items()}


def _measure_inside() -> dict[str, list[float]]:
    shares = {}
    with kernel_statistics(), far_end() as enter:
        for link, settings in LINKS.items():
            if settings:
                run(["ip", "link", "set", "near0", *settings])
            for control in ours():
                shares[f"{control}, {link}"] = _shares(control, enter)
    return shares


def _shares(control: str, enter: list[str]) -> list[float]:
    others = frozenset(_programs())
    with register_congestion_control(control) as registered:
        if not registered.owned:
            raise SystemExit(f"{control} belongs to another process: stop the agents of this machine first")
        return [_share(control, enter, others) for _ in range(ROUNDS)]


def _share(control: str, enter: list[str], others: frozenset[int]) -> float:
    """Return one round's share. `others`: programs that were there before the control."""
    ran_before_s, cpu_before_s = _ran_s(others), children_cpu_s()
    transfer(Throughput(control), enter)
    ran_s = _ran_s(others) - ran_before_s
    return ran_s / (children_cpu_s() - cpu_before_s)


def _ran_s(others: frozenset[int]) -> float:
    return sum(ran_ns for number, ran_ns in _programs().items() if number not in others) / 1e9


def _programs() -> dict[int, int]:
    """Return the run time in ns of each function of a congestion control, by its kernel id."""
    found = json.loads(run(["bpftool", "--json", "prog", "show"]))
    return {
        program["id"]: program.get("run_time_ns", 0)
        for program in found
        if program.get("type") == "struct_ops"
    }


if __name__ == "__main__":
    print(json.dumps(_measure_inside()))
