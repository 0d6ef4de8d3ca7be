# SPDX-License-Identifier: Apache-2.0
"""Generated traffic: three endless flows, and three flows with deadlines every ten seconds.

Sizes are uniform over 10 to 100 MB (a tenth of it on the testbed). The paper does not give its
deadlines. Here a flow's deadline is its size over the fair rate of the six flows (a sixth of the
link), times a factor. The factor is uniform over 0.9 … 1.3 (lax), 0.7 … 1.1 (moderate), 0.5 … 0.9
(tight). Rounds of the three kinds take turns within a run.

DATCP is compared with TCP. The simulator also has D³, because its switches grant rates, and two
variants of TCP. One has standard ECN flows, which DATCP's are if no deadlines are declared. The
other has a priority for each class of sizes, and all of these flows are in one class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.kit.draw import grid
from experiments.kit.experiment import Claim, Given, option
from experiments.kit.runs import Results
from experiments.papers.datcp.common import (
    DATCP,
    TCP,
    Case,
    Setup,
    endless,
    experiment,
    per_run,
    setup_of,
    sized,
)
from sluice.commands.arguments import at_least_one
from sluice.policy.fabrics import SIMULATOR
from sluice.policy.schemes import SCHEMES

FACTORS = {"lax": (0.9, 1.3), "moderate": (0.7, 1.1), "tight": (0.5, 0.9)}
PAPER_BYTES = (10_000_000, 100_000_000)
ROUND_S, FIRST_S = 10.0, 1.0
FLOWS = 6
"""Active flows at once. A fair rate is this part of the link's rate."""
ABOUT = 0.1
"""The greatest difference at which the shares of DATCP and D³ are "similar"."""


@dataclass(frozen=True)
class Variant:
    """A scheme, and whether the program declares the deadlines to the kernel."""

    title: str
    scheme: Mapping[str, Any]
    told: bool = True

    @property
    def colour(self) -> str:
        return SCHEMES[self.scheme["name"]].colour if self.told else "#d9a6c1"


VARIANTS = {
    "datcp": Variant("DATCP", DATCP),
    "d3": Variant("D³", {"name": "d3"}),
    "untold": Variant("ECN, no deadlines declared", DATCP, told=False),
    "tcp": Variant("TCP", TCP),
    "tcp-priority": Variant("TCP, priority by class", {"name": "tcp-priority"}),
}
ON_TESTBED = ("datcp", "tcp")


@dataclass(frozen=True)
class Timed:
    """A flow with a deadline."""

    kind: str
    bytes: int
    start_s: float
    deadline_s: float


def draw_flows(seed: int, rounds: int, setup: Setup) -> list[Timed]:
    """Return the flows of a seed, which are the same for every variant."""
    rng = np.random.default_rng([seed, rounds])
    kinds = [list(FACTORS)[number % len(FACTORS)] for number in range(rounds)]
    return [
        _draw_flow(rng, kind, FIRST_S + ROUND_S * number, setup)
        for number, kind in enumerate(kinds)
        for _ in range(3)
    ]


def _draw_flow(rng: np.random.Generator, kind: str, start_s: float, setup: Setup) -> Timed:
    size_bytes = int(rng.uniform(*map(setup.size_bytes, PAPER_BYTES)))
    fair_s = size_bytes * 8e-6 / (setup.goodput_mbps / FLOWS)
    return Timed(kind, size_bytes, start_s, round(fair_s * rng.uniform(*FACTORS[kind]), 6))


def cases(given: Given, seed: int) -> dict[str, Case]:
    timed = draw_flows(seed, given["rounds"], setup_of(given))
    names = VARIANTS if given.on == SIMULATOR else ON_TESTBED
    return {
        name: Case(_flows(timed, given["rounds"], VARIANTS[name].told), VARIANTS[name].scheme)
        for name in names
    }


def _flows(timed: Sequence[Timed], rounds: int, told: bool) -> list[dict[str, Any]]:
    flows = [endless(FIRST_S + ROUND_S * rounds) for _ in range(3)]
    for number, flow in enumerate(timed):
        keys = {"start_s": flow.start_s, "from": f"h{5 + number % 3}"}
        flows.append(sized(flow.bytes, flow.kind, flow.deadline_s if told else None, **keys))
    return flows


def met(fct_s: Sequence[float | None], timed: Sequence[Timed], kind: str) -> list[bool]:
    """Return whether each flow of a kind was done by its deadline, even if the kernel did not know it."""
    flows = [flow for flow in timed if flow.kind == kind]
    pairs = zip(fct_s, flows, strict=True)
    return [time_s is not None and time_s <= flow.deadline_s for time_s, flow in pairs]


def _share(results: Results, variant: str, kind: str) -> float:
    """Return the share of a kind's flows that met their deadlines."""
    given = results.given
    each = [
        one
        for run in results.runs.at(variant)
        for one in met(run.listed.fct_s(kind), draw_flows(run.seed, given["rounds"], setup_of(given)), kind)
    ]
    return sum(each) / len(each)


def claims(results: Results) -> list[Claim]:
    made = [_compared(results, kind, "tcp", "TCP", "above TCP") for kind in FACTORS]
    if "d3" in results.runs.variants:
        made += [_compared(results, kind, "d3", "D³", "similar") for kind in FACTORS]
    return made


def _compared(results: Results, kind: str, other: str, title: str, paper: str) -> Claim:
    ours, theirs = (_share(results, variant, kind) for variant in ("datcp", other))
    holds = ours > theirs if paper == "above TCP" else abs(ours - theirs) <= ABOUT
    what = f"{kind} deadlines: share of flows that meet them; under {title}"
    return Claim(what, paper, f"{ours:.0%}; {theirs:.0%}", holds and results.runs.valid())


def numbers(results: Results) -> dict[str, Any]:
    return {
        variant: {
            "share": {kind: _share(results, variant, kind) for kind in FACTORS},
            "flows": {
                kind: sum(len(run.listed.labelled(kind)) for run in results.runs.at(variant))
                for kind in FACTORS
            },
            "runs": per_run(results.runs.at(variant), lambda run: {}),
        }
        for variant in results.runs.variants
    }


def draw(results: Results) -> Figure:
    variants = results.runs.variants
    figure, [[axes]] = grid(1, 1, width=6.5 + len(variants) / 2, height=3.6)
    width = 0.8 / len(variants)
    for number, variant in enumerate(variants):
        places = [place + (number - (len(variants) - 1) / 2) * width for place in range(len(FACTORS))]
        heights = [100 * _share(results, variant, kind) for kind in FACTORS]
        made = VARIANTS[variant]
        bars = axes.bar(places, heights, width * 0.95, color=made.colour, label=made.title)
        axes.bar_label(bars, fmt="%.0f", fontsize="small")
    axes.set_xticks(range(len(FACTORS)), list(FACTORS))
    axes.set(ylabel="flows that meet their deadline (%)", ylim=(0, 108))
    axes.grid(visible=False)
    axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


ROUNDS = option(
    "--rounds", type=at_least_one, default=6, help="per run, ten seconds each (default: %(default)s)"
)
EXPERIMENT = experiment(
    13,
    "Under DATCP more flows meet their deadlines than under TCP, and as many as under D³.",
    minutes=8,
    about=__doc__,
    options=(ROUNDS,),
    quick={"rounds": 3},
    cases=cases,
    claims=claims,
    numbers=numbers,
    draw=draw,
)
