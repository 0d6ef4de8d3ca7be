# SPDX-License-Identifier: Apache-2.0
"""Homa beside pFabric and PIAS on the fabric of its paper, with four of its workloads: p99 slowdown by message size.

All schemes have the same messages. W1 is missing: an ACK (66 bytes) for each of its messages, which take 283 bytes of
a link on average, would bring the load of schemes with ACKs from 0.8 to 0.99.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import median

from experiments.kit.draw import Line
from experiments.kit.experiment import Claim, Experiment, Given, some_of
from experiments.kit.runners import Planned, ShortRuns, axes
from experiments.kit.runs import Results, Runs, all_finished, noted
from experiments.peers.compare import BINS, LINES, columns, draw, table
from sluice.runs.files import read_document

SCENARIO = Path(__file__).with_name("homa.toml")
FLOWS = {
    "homa-w2": 1_000_000,
    "homa-w3": 1_000_000,
    "homa-w4": 50_000,
    "web-search": 20_000,
}
"""Workload → messages of a run: W2 to W5. Their arrivals take some 3 ms under W2, and 20 ms or more."""
SHOWN: Mapping[str, Line] = {
    "homa": Line("Homa", "#661100", width=2.5),
    "pfabric": LINES["pfabric"],
    "pias": LINES["pias"],
    "sluice": LINES["sluice"],
}
SHORT = range(BINS // 2)
"""The tenths of the smaller half of the messages."""
EQUAL, NOISE = 1.25, 1.05
"""Ratios of p99 slowdowns that count as roughly equal, and as equal."""


def plan(given: Given) -> Mapping[str, Planned]:
    planned = {}
    for workload in given["workloads"]:
        document = read_document(SCENARIO)
        flows = FLOWS[workload] // (10 if given.quick else 1)
        document["workload"] |= {"sizes": workload, "flows": flows}
        planned[workload] = Planned(given.out / workload, axes(given, document, schemes=list(SHOWN)))
    return planned


def claims(results: Results) -> list[Claim]:
    verdict = []
    for name, runs in results.groups.items():
        verdict.append(all_finished(runs, f"{name}: unfinished messages"))
        worst = max(_p99(runs, "homa", i) for i in SHORT)
        verdict.append(noted(f"{name}: worst p99 slowdown of the smaller half, by tenths", f"{worst:.2f}"))
        verdict.append(_compared(name, runs, "pfabric", "roughly equal", EQUAL))
        verdict.append(_compared(name, runs, "pias", "lower for almost all sizes", NOISE))
    return verdict


def _compared(name: str, runs: Runs, other: str, paper: str, limit: float) -> Claim:
    """The p99 slowdown of Homa over another's in each tenth of the messages; all but one must be within the limit."""
    ratios = [_p99(runs, "homa", i) / _p99(runs, other, i) for i in range(BINS)]
    measured = f"{min(ratios):.2f} … {max(ratios):.2f}"
    holds = sorted(ratios)[-2] <= limit
    return Claim(f"{name}: p99 slowdown over {other}'s in each tenth", paper, measured, holds)


def _p99(runs: Runs, scheme: str, place: int) -> float:
    return median(runs.values(f"p99 {place}", scheme))


EXPERIMENT = Experiment(
    claim="Under four of its workloads, Homa's tail is roughly pFabric's; PIAS's is longer for most sizes.",
    figure="Montazeri et al., SIGCOMM 2018, abstract and section 5.2",
    minutes=8,
    runner=ShortRuns(plan, columns=columns),
    seeds=(1, 2, 3),
    options=(some_of("--workloads", tuple(FLOWS), "distributions of message sizes"),),
    quick={"seeds": (1,), "workloads": ["homa-w4"]},
    claims=claims,
    table=partial(table, lines=SHOWN),
    draw=partial(draw, lines=SHOWN),
)
