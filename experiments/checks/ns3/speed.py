# SPDX-License-Identifier: Apache-2.0
"""How fast both simulators are: packet-hops a second under DCTCP on the fabric of PIAS's evaluation, with equal flows.

ns-3 and our run without `threads` each have one core, and CPU time counts. The runs with `threads` follow one after
another, and wall-clock time counts, so two threads need two free cores. ns-3's release cannot use several.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from experiments.checks.ns3 import cases
from experiments.checks.ns3.cases import Case, run_on_ours
from experiments.checks.ns3.ns3 import make_driver, run_on_ns3
from experiments.kit.experiment import Claim, Experiment, Given, Script
from experiments.kit.runs import noted
from sluice.simulator import build as extension

LEAST = 100
"""Our simulator is at least this many times as fast as ns-3."""
THREADS = (1, 2)


@dataclass(frozen=True)
class Speeds:
    """Packet-hops for each second of CPU time, or of wall-clock time on threads; and mean FCTs."""

    ns3: float
    ours: float
    on_threads: Mapping[int, float]
    fct_ratio: float
    """Our mean FCT over ns-3's: both simulators did the same work."""


def measure(given: Given) -> Speeds:
    extension.build()
    make_driver()
    scenario, topology, flows = cases.speed_case(given.flows).made(1)
    network = (topology, flows, cases.END_S)
    ours = run_on_ours(scenario, *network, None)
    ns3 = run_on_ns3(scenario, *network, given.out / "ns3")
    return Speeds(
        ns3.packet_hops / ns3.seconds,
        ours.packet_hops / ours.seconds,
        {threads: _on_threads(cases.speed_case(given.flows, threads)) for threads in THREADS},
        float(np.nanmean(ours.fct_us) / np.nanmean(ns3.fct_us)),
    )


def _on_threads(case: Case) -> float:
    scenario, topology, flows = case.made(1)
    began = time.perf_counter()
    outcome = run_on_ours(scenario, topology, flows, case.until_s, None)
    return outcome.packet_hops / (time.perf_counter() - began)


def claims(found: Speeds) -> list[Claim]:
    times = found.ours / found.ns3
    return [
        Claim("packet-hops a CPU second, over ns-3's", f"≥ {LEAST}", f"{times:.0f}", times >= LEAST),
        *(
            noted(f"threads = {threads}, packet-hops a second over ns-3's", f"{speed / found.ns3:.0f}")
            for threads, speed in found.on_threads.items()
        ),
        noted("mean FCT over ns-3's", f"{found.fct_ratio:.3f}"),
    ]


def numbers(found: Speeds) -> Mapping[str, object]:
    return {"hops_per_s": {"ns3": found.ns3, "ours": found.ours, "on_threads": dict(found.on_threads)}}


def table(found: Speeds) -> str:
    rows = {"ns-3": found.ns3, "ours": found.ours}
    rows |= {f"ours, threads = {threads}": speed for threads, speed in found.on_threads.items()}
    lines = [f"| {name} | {speed / 1e6:.3g} | {speed / found.ns3:.0f} |" for name, speed in rows.items()]
    return "\n".join(
        ["| simulator | million packet-hops a second | over ns-3 |", "|---|---|---|", *lines, ""]
    )


EXPERIMENT = Experiment(
    name="ns3_speed",
    claim=f"Our simulator is {LEAST} times as fast as ns-3 on the same fabric and flows.",
    figure="",
    minutes=5,
    about=__doc__,
    runner=Script(measure),
    flows=2000,
    quick={"flows": 200},
    claims=claims,
    numbers=numbers,
    table=table,
)
