# SPDX-License-Identifier: Apache-2.0
"""The simulator's speed, in packet-hops per second, its peak memory, the cost of a large network, threads.

A packet-hop is one packet on one link, acknowledgements included. Every figure comes from a process of its own, so that
the memory of one run does not count for another.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from experiments.bench.measuring import Result, in_own_process
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
    return Speed(*in_own_process(run, changes))


def run(changes: Mapping[str, Any]) -> tuple[int, float, float, float]:
    """Return the figures of a run in this process."""
    from sluice.simulator.run import Simulation
    from sluice.simulator.taps import Taps

    document = read_document(SCENARIOS / "pias-144.toml")
    document.pop("sweep")
    scenario, *_ = scenario_with(document, **changes)
    simulation = Simulation(scenario, build_topology(scenario), Taps(flows=lambda columns: None))
    began, wall_began = time.process_time(), time.perf_counter()
    simulation.run()
    seconds, wall_s = time.process_time() - began, time.perf_counter() - wall_began
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    totals = simulation.totals()
    return int(totals["packet_hops"]), seconds, wall_s, peak_mib


# ── The lines of the table ───────────────────────────────────────────────────────────────────────────


THREADS_AT_HOSTS = (144, 1024)


def simulator_results() -> Iterator[Result]:
    """The evaluation of PIAS, web search at load 0.8, in CPU time, because others may use the machine."""
    whole, part = measure(pias(PUBLISHED_FLOWS)), measure(pias())
    yield Result("simulator, 144 hosts", whole.hops_per_s / 1e6, "M packet-hops/CPU s")
    yield Result(f"simulator, {PUBLISHED_FLOWS:,} flows at 144 hosts", whole.seconds, "CPU s")
    few = f"{FLOWS:,} flows"
    yield Result(f"simulator, memory, {PUBLISHED_FLOWS:,} flows", whole.peak_mib, "MiB", part.peak_mib, few)
    leaves, at_each = LARGE
    large = measure(scaled(leaves, at_each))
    yield Result(f"simulator, memory, {leaves * at_each:,} hosts, {few}", large.peak_mib, "MiB")
    with ThreadPoolExecutor(2) as pool:
        slower = min(speed.hops_per_s for speed in pool.map(measure, [pias(), pias()])) / 1e6
    yield Result(
        "simulator, the slower of two at once", slower, "M packet-hops/CPU s", part.hops_per_s / 1e6, "alone"
    )
    sizes = {leaves * hosts: measure(scaled(leaves, hosts)) for leaves, hosts in FABRICS}
    (least, first), *larger = sizes.items()
    for hosts, speed in larger:
        cost, baseline = 1e9 / speed.hops_per_s, 1e9 / first.hops_per_s
        yield Result(f"simulator, cost at {hosts:,} hosts", cost, "ns/packet-hop", baseline, f"{least} hosts")
    for leaves, hosts in FABRICS:
        if leaves * hosts not in THREADS_AT_HOSTS:
            continue
        plain = scaled(leaves, hosts)
        alone, *threaded = (measure(way) for way in (plain, on_threads(plain, 1), on_threads(plain, 2)))
        of, cost = f"{leaves * hosts:,} hosts, threads =", 1e9 / threaded[0].hops_per_s
        small = 1e9 / first.hops_per_s, f"{least} hosts, without threads"
        yield Result(f"simulator, cost at {of} 1", cost, "ns/packet-hop", *small)
        for threads, speed in enumerate(threaded, start=1):  # wall-clock time
            yield Result(f"simulator, {of} {threads}", speed.wall_s, "s", alone.wall_s, "without threads")
    yield from _busy_results()


def _busy_results() -> Iterator[Result]:
    """Wall-clock time on two threads over that on one, beside processes that burn a core each."""
    for busy in (1, 2):
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
        try:
            one, two = (measure(on_threads(pias(), threads)).wall_s for threads in (1, 2))
        finally:
            for other in others:
                other.kill()
                other.wait()
        yield Result(f"simulator, threads = 2 beside {busy} busy", two, "s", one, "threads = 1")


if __name__ == "__main__":
    print(json.dumps(vars(Speed(*run(json.loads(sys.argv[1]))))))
