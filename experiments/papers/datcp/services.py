# SPDX-License-Identifier: Apache-2.0
"""DATCP under the traffic of services: many flows with deadlines, and two MapReduce jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.kit.draw import grid
from experiments.kit.experiment import Claim, Given, option, spread
from experiments.kit.runs import Results, Run
from experiments.papers.datcp import common
from sluice.commands.arguments import at_least_one
from sluice.policy.fabrics import SIMULATOR
from sluice.policy.schemes import SCHEMES

FIG13_ABOUT = """\
Generated traffic: three endless flows, and three flows with deadlines every ten seconds.

Sizes are uniform over 10 to 100 MB (a tenth of it on the testbed). The paper does not give its
deadlines. Here a flow's deadline is its size over the fair rate of the six flows (a sixth of the
link), times a factor. The factor is uniform over 0.9 … 1.3 (lax), 0.7 … 1.1 (moderate), 0.5 … 0.9
(tight). Rounds of the three kinds take turns within a run.

DATCP is compared with TCP. The simulator also has D³, because its switches grant rates, and two
variants of TCP. One has standard ECN flows, which DATCP's are if no deadlines are declared. The
other has a priority for each class of sizes, and all of these flows are in one class."""

FACTORS = {"lax": (0.9, 1.3), "moderate": (0.7, 1.1), "tight": (0.5, 0.9)}
FIG13_PAPER_BYTES = (10_000_000, 100_000_000)
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


FIG13_VARIANTS = {
    "datcp": Variant("DATCP", common.DATCP),
    "d3": Variant("D³", {"name": "d3"}),
    "untold": Variant("ECN, no deadlines declared", common.DATCP, told=False),
    "tcp": Variant("TCP", common.TCP),
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


def draw_flows(seed: int, rounds: int, setup: common.Setup) -> list[Timed]:
    """Return the flows of a seed, which are the same for every variant."""
    rng = np.random.default_rng([seed, rounds])
    flows = []
    for number in range(rounds):
        kind = list(FACTORS)[number % len(FACTORS)]
        for _ in range(3):
            size_bytes = int(rng.uniform(*map(setup.size_bytes, FIG13_PAPER_BYTES)))
            fair_s = size_bytes * 8e-6 / (setup.goodput_mbps / FLOWS)
            deadline_s = round(fair_s * rng.uniform(*FACTORS[kind]), 6)
            flows.append(Timed(kind, size_bytes, FIRST_S + ROUND_S * number, deadline_s))
    return flows


def fig13_cases(given: Given, seed: int) -> dict[str, common.Case]:
    timed = draw_flows(seed, given["rounds"], common.setup_of(given))
    cases = {}
    for name in FIG13_VARIANTS if given.on == SIMULATOR else ON_TESTBED:
        variant = FIG13_VARIANTS[name]
        flows = [common.endless(FIRST_S + ROUND_S * given["rounds"]) for _ in range(3)]
        for number, flow in enumerate(timed):
            keys = {"start_s": flow.start_s, "from": f"h{5 + number % 3}"}
            flows.append(
                common.sized(flow.bytes, flow.kind, flow.deadline_s if variant.told else None, **keys)
            )
        cases[name] = common.Case(flows, variant.scheme)
    return cases


def met(fct_s: Sequence[float | None], timed: Sequence[Timed], kind: str) -> list[bool]:
    """Return whether each flow of a kind was done by its deadline, even if the kernel did not know it."""
    flows = [flow for flow in timed if flow.kind == kind]
    pairs = zip(fct_s, flows, strict=True)
    return [time_s is not None and time_s <= flow.deadline_s for time_s, flow in pairs]


def _share(results: Results, variant: str, kind: str) -> float:
    """Return the share of a kind's flows that met their deadlines."""
    given = results.given
    in_time: list[bool] = []
    for run in results.runs.at(variant):
        timed = draw_flows(run.seed, given["rounds"], common.setup_of(given))
        in_time += met(run.listed.fct_s(kind), timed, kind)
    return sum(in_time) / len(in_time)


def fig13_claims(results: Results) -> list[Claim]:
    verdict = [_compared(results, kind, "tcp", "TCP", "above TCP") for kind in FACTORS]
    if "d3" in results.runs.variants:
        verdict += [_compared(results, kind, "d3", "D³", "similar") for kind in FACTORS]
    return verdict


def _compared(results: Results, kind: str, other: str, title: str, paper: str) -> Claim:
    ours, theirs = (_share(results, variant, kind) for variant in ("datcp", other))
    holds = ours > theirs if paper == "above TCP" else abs(ours - theirs) <= ABOUT
    what = f"{kind} deadlines: share of flows that meet them; under {title}"
    return Claim(what, paper, f"{ours:.0%}; {theirs:.0%}", holds and results.runs.valid())


def draw(results: Results) -> Figure:
    variants = results.runs.variants
    figure, [[axes]] = grid(1, 1, width=6.5 + len(variants) / 2, height=3.6)
    width = 0.8 / len(variants)
    for number, name in enumerate(variants):
        places = [place + (number - (len(variants) - 1) / 2) * width for place in range(len(FACTORS))]
        heights = [100 * _share(results, name, kind) for kind in FACTORS]
        variant = FIG13_VARIANTS[name]
        bars = axes.bar(places, heights, width * 0.95, color=variant.colour, label=variant.title)
        axes.bar_label(bars, fmt="%.0f", fontsize="small")
    axes.set_xticks(range(len(FACTORS)), list(FACTORS))
    axes.set(ylabel="flows that meet their deadline (%)", ylim=(0, 108))
    axes.grid(visible=False)
    axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


ROUNDS = option("--rounds", "per run, ten seconds each", type=at_least_one, default=6)
FIG13 = common.experiment(
    13,
    "Under DATCP more flows meet their deadlines than under TCP, and as many as under D³.",
    minutes=8,
    about=FIG13_ABOUT,
    options=(ROUNDS,),
    quick={"rounds": 3},
    cases=fig13_cases,
    claims=fig13_claims,
    draw=draw,
)


FIG14_ABOUT = """\
MapReduce: jobs A and B each copy two map outputs of 100 MB to one server.

B's deadline is 2 s, A's 5 s. Together they need 1.12 of the link's 0.96 Gb/s, so some flows must
be suspended. The program decides which flows may be. Here job A's may and job B's not; in a second
variant all may. Both are compared with TCP (CUBIC, no marks), and with the standard ECN flows that
DATCP's are if no deadlines are declared."""

FIG14_PAPER_BYTES = 100_000_000
A, B = "job A", "job B"
DEADLINES_S = {A: 5.0, B: 2.0}
ON_TIME = 1.05
"""B is done "in 2 s" if it takes at most this multiple of its deadline."""
UNHARMED = 1.05
"""A is unharmed if it takes at most this multiple of its time without declared deadlines."""

FIG14_VARIANTS: Mapping[str, tuple[Mapping[str, Any], tuple[str, ...] | None]] = {
    "datcp": (common.DATCP, (A,)),
    "all-may": (common.DATCP, (A, B)),
    "tcp": (common.TCP, None),
    "untold": (common.DATCP, None),
}
"""Variant → scheme, and the jobs whose flows may be suspended; None: no deadlines are declared."""
TITLES = {
    "datcp": "DATCP, A may be suspended",
    "all-may": "DATCP, all may be suspended",
    "tcp": "TCP",
    "untold": "ECN, no deadlines declared",
}
B_SUSPENDED = (
    "A gets the rate that it needs, B never does. So B's urgency rises without effect. Algorithm 2 suspends B "
    "before its precedence is high enough to protect it"
)


def fig14_cases(given: Given, seed: int) -> dict[str, common.Case]:
    size_bytes = common.setup_of(given).size_bytes(FIG14_PAPER_BYTES)
    cases = {}
    for variant, (scheme, may_wait) in FIG14_VARIANTS.items():
        flows = []
        for job, deadline_s in DEADLINES_S.items():
            flow = common.sized(size_bytes, job)
            if may_wait is not None:
                quench = "suspend" if job in may_wait else "never"
                flow = common.sized(size_bytes, job, deadline_s, quench=quench)
            flows += [flow, flow]
        cases[variant] = common.Case(flows, scheme)
    return cases


def done_s(run: Run, job: str) -> float:
    """Return when both flows of a job are done."""
    times = run.listed.fct_s(job)
    return float("inf") if None in times else max(time for time in times if time is not None)


def fig14_claims(results: Results) -> list[Claim]:
    done = {
        (v, job): [done_s(run, job) for run in results.runs.at(v)] for v in FIG14_VARIANTS for job in (A, B)
    }
    valid, soon_s = results.runs.valid(), ON_TIME * DEADLINES_S[B]
    b, b_all, b_tcp, b_untold = (done[variant, B] for variant in ("datcp", "all-may", "tcp", "untold"))
    a, a_untold, a_tcp = (done[variant, A] for variant in ("datcp", "untold", "tcp"))
    later = {"tcp": median(b_tcp) > median(b), "untold": median(b_untold) > median(b)}
    return [
        Claim("job B is done, in seconds", "2.0", spread(b), median(b) <= soon_s and valid),
        Claim(
            "job B when its own flows may be suspended too",
            "2.0",
            spread(b_all),
            median(b_all) <= soon_s and valid,
            B_SUSPENDED,
        ),
        Claim("job B under TCP", "3.2", spread(b_tcp), later["tcp"] and valid),
        Claim("job B when no deadlines are declared", "–", spread(b_untold), later["untold"] and valid),
        Claim(
            "job A under DATCP; when no deadlines are declared; under TCP",
            "unharmed",
            f"{spread(a)}; {spread(a_untold)}; {spread(a_tcp)}",
            median(a) <= UNHARMED * median(a_untold) and valid,
        ),
    ]


FIG14 = common.experiment(
    14,
    "Under DATCP job B meets its 2 s while job A, whose flows may be suspended, is unharmed.",
    minutes=3,
    about=FIG14_ABOUT,
    cases=fig14_cases,
    claims=fig14_claims,
    draw=common.throughputs(TITLES, colours={A: common.OTHER, B: common.DEADLINE}, top=1.0),
)
