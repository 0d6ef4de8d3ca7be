# SPDX-License-Identifier: Apache-2.0
"""One client fetches web pages of mixed sizes from three servers, on real switches under scheme sluice.

The servers declare the size of each response by its Content-Length, or they do not. Both have the same requests, those
of scheme_tour's flows.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from experiments.checks.http_sizes import web
from experiments.checks.scheme_tour import SCENARIO
from experiments.kit.experiment import Claim, Experiment, Given, Script, markdown_table
from experiments.kit.live import running
from experiments.kit.runners import axes
from experiments.kit.runs import difference
from sluice.policy.fabrics import TESTBED
from sluice.policy.wire.records import SIZE_CLASSES, ScheduledFlow
from sluice.runs.stack import Stack
from sluice.runs.validity import RunWatch
from sluice.runtime.process import stop
from sluice.runtime.wait import wait_until
from sluice.sweep.points import Point

MODES = ("plain", "declared")
CLIENT = "h1"
LEAST_S, GRACE_S = 1.0, 120.0


@dataclass(frozen=True)
class Run:
    """One run: the times of the responses in ms by size class, and all together."""

    times_ms: Mapping[str, Sequence[float]]
    reasons: Sequence[str]
    """Why the run is not valid."""

    def mean(self, size_class: str) -> float:
        return fmean(self.times_ms[size_class])

    def p99(self, size_class: str) -> float:
        return float(np.percentile(self.times_ms[size_class], 99))


Outcome = Mapping[str, Sequence[Run]]
"""Mode → its runs in the order of the seeds."""
CLASSES = (*SIZE_CLASSES, "all")


def measure(given: Given) -> Outcome:
    runs: dict[str, list[Run]] = {mode: [] for mode in MODES}
    for point in axes(given, SCENARIO, schemes=["sluice"]):
        for mode in MODES:
            runs[mode].append(_run(point, mode, given.out / f"{mode}-seed{point.seed}"))
    return runs


def _run(point: Point, mode: str, out: Path) -> Run:
    with running(point.document, np.random.default_rng(point.seed), out) as (stack, flows):
        stack.start_agents([])
        servers = [_serve(stack, host, mode, out) for host in sorted({flow.src for flow in flows})]
        try:
            with RunWatch(stack.testbed) as watch:
                times_ms = _fetch(stack, flows)
        finally:
            for process in servers:
                stop(process)
        reasons = watch.reasons()
    by_class = {
        name: [ms for flow, ms in zip(flows, times_ms, strict=True) if flow.size_class == name]
        for name in SIZE_CLASSES
    }
    return Run({**by_class, "all": times_ms}, reasons)


def _serve(stack: Stack, host: str, mode: str, out: Path) -> subprocess.Popen[bytes]:
    address = stack.topology.host_by_name[host].ipv4
    argv = [sys.executable, "-m", web.__name__, "serve", address, str(web.PORT), mode]
    process = stack.testbed.spawn(host, argv, log_file=out / f"{host}.log")
    listens = f":{web.PORT}"
    wait_until(lambda: listens in stack.testbed.exec(host, ["ss", "-Hltn"]), f"the server on {host} listens")
    return process


def _fetch(stack: Stack, flows: Sequence[ScheduledFlow]) -> list[float]:
    """Return the times of the responses in ms."""
    address = {host.name: host.ipv4 for host in stack.topology.hosts}
    requests = [(LEAST_S + flow.start_s, address[flow.src], flow.bytes) for flow in flows]
    answer = stack.testbed.exec(
        CLIENT,
        [sys.executable, "-m", web.__name__, "fetch"],
        stdin=json.dumps(requests),
        timeout_s=flows[-1].start_s + GRACE_S,
    )
    return [1000 * float(seconds) for seconds in json.loads(answer)]


# -- the verdict


def claims(outcome: Outcome) -> list[Claim]:
    runs = [run for of_mode in outcome.values() for run in of_mode]
    reasons = "; ".join(reason for run in runs for reason in run.reasons)
    compared = []
    for size_class in ("medium", "all"):
        declared, plain = ([run.mean(size_class) for run in outcome[mode]] for mode in ("declared", "plain"))
        change, what = difference(declared, plain), f"mean of {size_class} responses, declared or not"
        compared.append(Claim(what, "lower", str(change), change.mean < 0))
    return [*compared, Claim("runs that are valid", "all", reasons or "all", not reasons)]


def numbers(outcome: Outcome) -> dict[str, Any]:
    return {
        mode: {
            name: {"mean_ms": [run.mean(name) for run in runs], "p99_ms": [run.p99(name) for run in runs]}
            for name in CLASSES
        }
        for mode, runs in outcome.items()
    }


def table(outcome: Outcome) -> str:
    """Return the figures as Markdown: means over the seeds, in ms."""
    columns = ("small", "small p99", "medium", "medium p99", "large", "all")
    rows = []
    for mode, runs in outcome.items():
        cells = []
        for column in columns:
            size_class, _, tail = column.partition(" ")
            cells.append(fmean(run.p99(size_class) if tail else run.mean(size_class) for run in runs))
        rows.append((mode, *(f"{cell:.3g}" for cell in cells)))
    return markdown_table(("sizes", *columns), rows, " --- ")


EXPERIMENT = Experiment(
    claim="Web servers whose responses declare their Content-Length serve them sooner.",
    minutes=5,
    runner=Script(measure),
    on=(TESTBED,),
    seeds=(1, 2, 3),
    flows=600,
    quick={"seeds": (1,), "flows": 200},
    claims=claims,
    numbers=numbers,
    table=table,
)
