# SPDX-License-Identifier: Apache-2.0
"""The simulator's speed, in packet-hops per second, and its peak memory.

A packet-hop is one packet on one link, acknowledgements included. Every figure comes from a
process of its own, so that the memory of one run does not count for another.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from sluice.runs.files import SCENARIOS, read_document, scenario_with
from sluice.topologies import build_topology

FLOWS = 20_000
PUBLISHED_FLOWS = 100_000
"""Flows in one point of PIAS's evaluation."""
FABRICS = ((2, 8), (4, 16), (9, 16), (16, 16), (32, 32))
"""(leaves, hosts at each leaf): 16 to 1,024 hosts."""
LARGE = (64, 64)
"""The same for 4,096 hosts, of which only the memory is measured."""


@dataclass(frozen=True)
class Speed:
    """The figures of one run."""

    packet_hops: int
    events: int
    seconds: float
    """CPU time."""
    wall_s: float
    peak_mib: float
    """Of the whole process, with Python and its libraries."""

    @property
    def hops_per_s(self) -> float:
        return self.packet_hops / self.seconds


def pias(flows: int = FLOWS, **fabric: int) -> dict[str, Any]:
    """Return the keys that change the scenario of PIAS's evaluation."""
    return {"fabric": fabric, "workload": {"flows": flows}}


def scaled(leaves: int, hosts_per_leaf: int) -> dict[str, Any]:
    """Return the keys for the same load and number of flows on a fabric of another size, without
    oversubscription."""
    return pias(leaves=leaves, spines=max(1, hosts_per_leaf // 4), hosts_per_leaf=hosts_per_leaf)


def on_threads(changes: Mapping[str, Any], threads: int) -> dict[str, Any]:
    """Return the keys for the same run on so many threads."""
    return {**changes, "simulator": {"threads": threads}}


def measure(changes: Mapping[str, Any]) -> Speed:
    """Run PIAS's scenario with these changes, in a process of its own."""
    argv = [sys.executable, "-m", __name__, json.dumps(changes)]
    result = subprocess.run(argv, capture_output=True, text=True, check=True)
    return Speed(**json.loads(result.stdout))


def measure_at_once(changes: Sequence[Mapping[str, Any]]) -> list[Speed]:
    """Do the same for several scenarios at the same time."""
    with ThreadPoolExecutor(len(changes)) as pool:
        return list(pool.map(measure, changes))


def _run(changes: Mapping[str, Any]) -> Speed:
    from sluice.simulator.run import Simulation
    from sluice.simulator.taps import Taps

    document = read_document(SCENARIOS / "pias-144.toml")
    document.pop("sweep")
    scenario, _ = scenario_with(document, **changes)
    simulation = Simulation(scenario, build_topology(scenario), Taps(flows=lambda columns: None))
    began, wall_began = time.process_time(), time.perf_counter()
    simulation.run()
    seconds, wall_s = time.process_time() - began, time.perf_counter() - wall_began
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    totals = simulation.totals()
    return Speed(int(totals["packet_hops"]), int(totals["events"]), seconds, wall_s, peak_mib)


if __name__ == "__main__":
    print(json.dumps(vars(_run(json.loads(sys.argv[1])))))
