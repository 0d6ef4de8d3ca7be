# SPDX-License-Identifier: Apache-2.0
"""The lines of the benchmark about the simulator: speed, memory, the cost of a large network, threads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from sluice.bench.results import Result
from sluice.bench.simulator import (
    FABRICS,
    FLOWS,
    LARGE,
    PUBLISHED_FLOWS,
    measure,
    measure_at_once,
    on_threads,
    pias,
    scaled,
)

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
    together = measure_at_once([pias(), pias()])
    slower = min(speed.hops_per_s for speed in together) / 1e6
    yield Result(
        "simulator, the slower of two at once", slower, "M packet-hops/CPU s", part.hops_per_s / 1e6, "alone"
    )
    sizes = {leaves * hosts: measure(scaled(leaves, hosts)) for leaves, hosts in FABRICS}
    (least, first), *larger = sizes.items()
    for hosts, speed in larger:
        cost, baseline = 1e9 / speed.hops_per_s, 1e9 / first.hops_per_s
        yield Result(f"simulator, cost at {hosts:,} hosts", cost, "ns/packet-hop", baseline, f"{least} hosts")
    yield from _one_thread_results(1e9 / first.hops_per_s, f"{least} hosts, without threads")
    yield from _threads_results()
    yield from _busy_results()


def _one_thread_results(baseline: float, baseline_name: str) -> Iterator[Result]:
    """The cost of a packet-hop of a network in parts, all on one thread."""
    for leaves, hosts in FABRICS:
        if leaves * hosts in THREADS_AT_HOSTS:
            cost = 1e9 / measure(on_threads(scaled(leaves, hosts), 1)).hops_per_s
            name = f"simulator, cost at {leaves * hosts:,} hosts, threads = 1"
            yield Result(name, cost, "ns/packet-hop", baseline, baseline_name)


def _threads_results() -> Iterator[Result]:
    """Wall-clock time of one run on one and two threads, beside the same run without `threads`."""
    for leaves, hosts in FABRICS:
        if leaves * hosts not in THREADS_AT_HOSTS:
            continue
        plain = measure(scaled(leaves, hosts)).wall_s
        for threads in (1, 2):
            wall_s = measure(on_threads(scaled(leaves, hosts), threads)).wall_s
            of = f"simulator, {leaves * hosts:,} hosts, threads = {threads}"
            yield Result(of, wall_s, "s", plain, "without threads")


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
