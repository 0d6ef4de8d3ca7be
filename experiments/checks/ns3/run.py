# SPDX-License-Identifier: Apache-2.0
"""The same flows on ns-3's TcpDctcp and on our simulator, and how fast both are."""

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from experiments.checks.ns3 import cases, compare
from experiments.checks.ns3.cases import Case, run_on_ours
from experiments.checks.ns3.compare import Figure, Pair
from experiments.checks.ns3.ns3 import make_driver, run_on_ns3
from experiments.kit.draw import Line, distribution, grid
from experiments.kit.experiment import Claim, Experiment, Given, Script, markdown_table
from experiments.kit.runs import noted
from sluice.policy.figures.metrics import size_classes
from sluice.policy.wire.records import SIZE_CLASSES
from sluice.simulator import build as extension

ABOUT = """\
The same flows on ns-3's TcpDctcp and on our simulator.

The cases are lone flows, long flows, incasts, losses and web search."""

LINES = (Line("ns-3", "#d9730d", width=3.0), Line("Sluice", "#0b6e99", width=1.2))
QUICK_SEEDS = 2


@dataclass(frozen=True)
class Compared:
    """The results of every case on both simulators."""

    pairs: Mapping[str, list[Pair]]
    """Name of a case → one pair for each seed."""
    figures: Sequence[Figure]
    web: Sequence[Case]


def measure(given: Given) -> Compared:
    extension.build()
    make_driver()
    web = cases.web_cases(given.flows)
    kinds = (
        (_seeds(given, cases.LONE), compare.lone_figures),
        (_seeds(given, cases.LONG), compare.long_figures),
        (_seeds(given, cases.INCASTS), compare.incast_figures),
        (web, compare.web_figures),
    )
    pairs = {
        case.name: compare.run_pairs(case, given.out, shipped=case not in web)
        for of_kind, _ in kinds
        for case in of_kind
    }
    figures = [
        figure
        for of_kind, figures_of in kinds
        for case in of_kind
        for figure in figures_of(case, pairs[case.name])
    ]
    return Compared(pairs, figures, web)


def _seeds(given: Given, of_kind: Sequence[Case]) -> list[Case]:
    """Return the cases with fewer seeds for a quick run."""
    most = QUICK_SEEDS if given.quick else None
    return [replace(case, seeds=case.seeds[:most]) for case in of_kind]


def claims(compared: Compared) -> list[Claim]:
    return [
        *(figure.claim(compare.explanation_of(figure)) for figure in compared.figures),
        *(compare.closed_form(case, compared.pairs[case.name]) for case in cases.LONE),
        *(compare.same_paths(case, compared.pairs[case.name]) for case in compared.web),
    ]


def numbers(compared: Compared) -> dict[str, Any]:
    return {
        "figures": [figure.document() for figure in compared.figures],
        "speed": compare.speeds(compared.pairs),
        "shipped": compare.shipped(compared.pairs),
    }


def table(compared: Compared) -> str:
    """Return web search by size class, then all other figures."""
    return f"{compare.class_table(compared.figures)}\n\n{compare.other_table(compared.figures)}\n"


def draw(compared: Compared) -> matplotlib.figure.Figure:
    """Draw the completion times of web search: a row for each case, a column for each class."""
    picture, panels = grid(len(compared.web), len(SIZE_CLASSES), width=4, height=2.6)
    for row, case in zip(panels, compared.web, strict=True):
        pairs = compared.pairs[case.name]
        of_class = size_classes(np.concatenate([pair.flows.bytes for pair in pairs]))
        ours_ms, ns3_ms = (compare.times_us(outcomes) / 1000 for outcomes in compare.sides(pairs))
        for i, axes in enumerate(row):
            chosen = of_class == i
            for values, line in zip((ns3_ms[chosen], ours_ms[chosen]), LINES, strict=True):
                distribution(axes, values, line)
            wide = chosen.any() and np.ptp(np.log10(ours_ms[chosen])) > 2
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.set_title(f"{case.name}, {SIZE_CLASSES[i]} ({chosen.sum()} flows)")
    for axes in panels[-1]:
        axes.set_xlabel("FCT (ms)")
    panels[0][0].legend(loc="upper left")
    return picture


EXPERIMENT = Experiment(
    claim="DCTCP on our simulator is DCTCP on ns-3, flow by flow or in distribution.",
    minutes=20,
    about=ABOUT,
    runner=Script(measure),
    flows=3000,
    quick={"flows": 100},
    claims=claims,
    numbers=numbers,
    draw=draw,
    table=table,
)


SPEED_ABOUT = """\
How fast both simulators are: packet-hops a second under DCTCP on the fabric of PIAS's evaluation, with equal flows.

The runs follow one after another. ns-3 and our runs without `threads` and with one each have one core, and CPU time
counts. Wall-clock time counts for two threads, which need two free cores. ns-3's release cannot use several."""

LEAST = 300
"""Our simulator is at least this many times as fast as ns-3 on one core, with `threads = 1`."""
THREADS = (1, 2)


@dataclass(frozen=True)
class Speeds:
    """Packet-hops for each second of CPU time, or of wall-clock time on several threads; and mean FCTs."""

    ns3: float
    ours: float
    on_threads: Mapping[int, float]
    fct_ratio: float
    """Our mean FCT over ns-3's: both simulators did the same work."""


def speed_measure(given: Given) -> Speeds:
    extension.build()
    make_driver()
    scenario, topology, flows = cases.speed_case(given.flows).made(1)
    network = (topology, flows, cases.END_S)
    ours = run_on_ours(scenario, *network, None)
    # A finished run would not be repeated, and its speed is that of another hour.
    shutil.rmtree(given.out / "ns3", ignore_errors=True)
    ns3 = run_on_ns3(scenario, *network, given.out / "ns3")
    on_threads = {}
    for threads in THREADS:
        scenario, topology, flows = cases.speed_case(given.flows, threads).made(1)
        began = time.perf_counter()
        outcome = run_on_ours(scenario, topology, flows, cases.END_S, None)
        seconds = outcome.seconds if threads == 1 else time.perf_counter() - began
        on_threads[threads] = outcome.packet_hops / seconds
    return Speeds(
        ns3.packet_hops / ns3.seconds,
        ours.packet_hops / ours.seconds,
        on_threads,
        float(np.nanmean(ours.fct_us) / np.nanmean(ns3.fct_us)),
    )


def speed_claims(speeds: Speeds) -> list[Claim]:
    without, one, *others = (speed / speeds.ns3 for speed in (speeds.ours, *speeds.on_threads.values()))
    return [
        Claim(
            "packet-hops a CPU second with threads = 1, over ns-3's", f"≥ {LEAST}", f"{one:.0f}", one >= LEAST
        ),
        noted("the same without threads", f"{without:.0f}"),
        *(
            noted(f"packet-hops a second with threads = {threads}, over ns-3's", f"{times:.0f}")
            for threads, times in zip(THREADS[1:], others, strict=True)
        ),
        noted("mean FCT over ns-3's", f"{speeds.fct_ratio:.3f}"),
    ]


def speed_numbers(speeds: Speeds) -> Mapping[str, object]:
    return {"hops_per_s": {"ns3": speeds.ns3, "ours": speeds.ours, "on_threads": dict(speeds.on_threads)}}


def speed_table(speeds: Speeds) -> str:
    rows = {"ns-3": speeds.ns3, "ours": speeds.ours}
    rows |= {f"ours, threads = {threads}": speed for threads, speed in speeds.on_threads.items()}
    cells = ((name, f"{speed / 1e6:.3g}", f"{speed / speeds.ns3:.0f}") for name, speed in rows.items())
    return markdown_table(("simulator", "million packet-hops a second", "over ns-3"), cells) + "\n"


SPEED = Experiment(
    claim=f"Our simulator is {LEAST} times as fast as ns-3 on one core, on the same fabric and flows.",
    minutes=5,
    about=SPEED_ABOUT,
    runner=Script(speed_measure),
    flows=2000,
    quick={"flows": 200},
    claims=speed_claims,
    numbers=speed_numbers,
    table=speed_table,
)
