# SPDX-License-Identifier: Apache-2.0
"""The effect of urgency under UCP: two long flows share a link, measured against the law.

A flow's urgency is s = T_e / (T_d - T_e), the elapsed over the remaining time. A long past and a
distant deadline keep it nearly constant: 300 s elapsed, 300 s / s left. It changes by some per
cent during the measurement, and is s in the middle of it.

Each pair runs twice, with its senders swapped, because a software switch takes the packets of its
ports in turn. Packets of the later port find the longer queue and are marked more often. So one of
two equal flows gets two thirds of the link. The odds of the two runs are averaged (geometric
mean). The controls show how much the place decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.kit.draw import grid
from experiments.kit.experiment import Claim, Experiment, Given, spread
from experiments.kit.flows import ListedFlows
from experiments.kit.runners import Planned, RunAfterRun, named, one_group
from experiments.kit.runs import Results, Runs
from experiments.papers.datcp.common import BACKGROUND, DEADLINE, OTHER, SMALL, Case, document, endless
from sluice.policy.fabrics import TESTBED

Pair = tuple[float | None, float | None]
"""Urgencies of the two flows; None means no deadline."""

ELAPSED_S, UNTIL_S = 300.0, 10.0
SETTLED_S = 2.0
"""Shares and samples count from this time to the end."""
PLACES = (("h2", "h3"), ("h3", "h2"))
"""Senders of the two flows, in each of the two runs."""
AGAINST_NONE = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Urgencies of one flow. The other has no deadline, which is s = 1."""
AGAINST_EACH_OTHER = ((0.5, 2.0), (0.5, 1.5), (1.0, 2.0))
EQUAL: tuple[Pair, ...] = ((None, None), (1.0, 1.0))
"""Controls: the law gives these flows equal shares, but their places may not."""
PAIRS: tuple[Pair, ...] = (*EQUAL, *((s, None) for s in AGAINST_NONE), *AGAINST_EACH_OTHER)
TOLERANCE = 0.1
"""Greatest difference of a share from the law's."""
WHY = (
    "the prediction assumes that both flows are marked in the same windows; "
    "a flow with few packets is marked in fewer"
)


# -- the runs


def plan(given: Given) -> Mapping[str, Planned]:
    points = []
    for pair, seed, senders in product(PAIRS, given.seeds, PLACES):
        flows = [
            endless(UNTIL_S, f"flow {i + 1}", **{"from": sender}, **_urgency(s))
            for i, (s, sender) in enumerate(zip(pair, senders, strict=True))
        ]
        scenario = document(seed, Case(flows, {"name": "ucp"}), SMALL) | {"transport": {"rto_min": "10ms"}}
        points.append(named(scenario, variant_of(pair, senders), seed))
    return one_group(given, points)


def name_of(pair: Pair) -> str:
    first, second = ("no deadline" if s is None else f"s {s:g}" for s in pair)
    return f"{first} against {second}"


def variant_of(pair: Pair, senders: tuple[str, str]) -> str:
    return f"{name_of(pair)} from {senders[0]}"


def _urgency(s: float | None) -> dict[str, str]:
    if s is None:
        return {}
    middle_s = (SETTLED_S + UNTIL_S) / 2
    deadline_s = middle_s + (ELAPSED_S + middle_s) / s
    return {"elapsed": f"{ELAPSED_S:g}s", "deadline": f"{deadline_s:g}s"}


# -- what they come to


@dataclass(frozen=True)
class Outcome:
    """A pair with one seed, in both places. `share` is the first flow's part of the two flows'
    throughput."""

    share: float
    by_place: tuple[float, ...]
    """The share in each of the two runs. In the second one the senders are swapped."""
    alpha: tuple[tuple[float, float], ...]
    penalty: tuple[tuple[float, float], ...]
    """Means of alpha^s / 2, the part that a marked window loses, of both flows in each run."""
    predicted: float
    valid: bool


def outcomes(runs: Runs, pair: Pair) -> list[Outcome]:
    """Return one outcome for each seed."""
    by_place = (runs.at(variant_of(pair, senders)) for senders in PLACES)
    by_seed = []
    for both in zip(*by_place, strict=True):
        listed = [run.listed for run in both]
        rates = [[flows.mean_rate_mbps(i, SETTLED_S, UNTIL_S) for i in range(2)] for flows in listed]
        shares = tuple(first / (first + second) for first, second in rates)
        alpha = tuple((_mean(flows, 0, "alpha"), _mean(flows, 1, "alpha")) for flows in listed)
        penalty = tuple((_mean(flows, 0, "decrease"), _mean(flows, 1, "decrease")) for flows in listed)
        predicted = balanced([predicted_share(*losses) for losses in penalty])
        valid = all(run.valid for run in both)
        by_seed.append(Outcome(balanced(shares), shares, alpha, penalty, predicted, valid))
    return by_seed


def balanced(shares: Sequence[float]) -> float:
    """Return the share whose odds are the geometric mean of the odds of these."""
    odds = float(np.exp(np.mean([np.log(share / (1 - share)) for share in shares])))
    return odds / (1 + odds)


def _mean(run: ListedFlows, index: int, name: str) -> float:
    times, values = run.column(index, name)
    return float(np.mean(values[times > SETTLED_S]))


def predicted_share(first: float, second: float) -> float:
    """Return the share of a flow that loses `first` of its window when marked, if the other flow
    loses `second`.

    Both are marked in the same windows, and grow by a packet in the others. So a window W loses
    what it gains between two marks, W * loss = n for both, and its mean is W * (1 - loss / 2)."""
    means = [(1 - loss / 2) / loss for loss in (first, second)]
    return means[0] / sum(means)


# -- the verdict


def claims(results: Results) -> list[Claim]:
    by_pair = {pair: outcomes(results.runs, pair) for pair in PAIRS}
    verdict = [_yields(s, by_pair[s, None]) for s in AGAINST_NONE]
    for pair, by_seed in by_pair.items():
        errors = [outcome.share - outcome.predicted for outcome in by_seed]
        holds = max(map(abs, errors)) <= TOLERANCE and all(outcome.valid for outcome in by_seed)
        predicted, measured = (spread([getattr(o, name) for o in by_seed]) for name in ("predicted", "share"))
        what = f"{name_of(pair)}: share as the law predicts"
        verdict.append(Claim(what, predicted, measured, holds, WHY))
    return verdict


def _yields(s: float, by_seed: Sequence[Outcome]) -> Claim:
    shares = [outcome.share for outcome in by_seed]
    if s == 1:
        what, holds = "shares evenly", all(abs(share - 0.5) < TOLERANCE for share in shares)
    elif s < 1:
        what, holds = "yields", max(shares) < 0.5
    else:
        what, holds = "takes more", min(shares) > 0.5
    valid = all(outcome.valid for outcome in by_seed)
    return Claim(f"s = {s:g} {what} against a flow without deadline", what, spread(shares), holds and valid)


def numbers(results: Results) -> dict[str, Any]:
    return {name_of(pair): [vars(outcome) for outcome in outcomes(results.runs, pair)] for pair in PAIRS}


def draw(results: Results) -> Figure:
    figure, [[penalties, shares]] = grid(1, 2, width=4.5, height=4.2)
    _draw_penalties(penalties, results.runs)
    _draw_shares(shares, {s: outcomes(results.runs, (s, None)) for s in AGAINST_NONE})
    for axes in (penalties, shares):
        axes.legend(frameon=False, fontsize="small")
    return figure


def _draw_penalties(axes: Axes, runs: Runs) -> None:
    """Draw the slides' "Window Penalty": every sample of the kernel, and the law."""
    s = np.linspace(0.2, 4.2, 100)
    for alpha, style in ((0.2, ":"), (0.4, "--"), (0.6, "-")):
        axes.plot(s, alpha**s / 2, style, color=OTHER, linewidth=1, label=f"law, α = {alpha}")
    for run in runs.runs:
        for index in range(2):
            (_, urgency), (_, decrease) = (run.listed.column(index, n) for n in ("urgency", "decrease"))
            axes.plot(urgency, decrease, ".", color=DEADLINE, markersize=2, alpha=0.3)
    axes.set(title="loss of a marked window", xlabel="urgency s", ylabel="α^s / 2")
    axes.set(xlim=(0, 5), ylim=(0, 0.6))


def _draw_shares(axes: Axes, by_urgency: Mapping[float, Sequence[Outcome]]) -> None:
    for s, by_seed in by_urgency.items():
        law, measured = ("law", "measured") if s == 1 else (None, None)
        axes.plot([s] * len(by_seed), [o.predicted for o in by_seed], "x", color=OTHER, label=law)
        shares = [o.share for o in by_seed]
        axes.plot([s] * len(by_seed), shares, "o", color=DEADLINE, fillstyle="none", label=measured)
    axes.axhline(0.5, color=BACKGROUND, linewidth=0.8)
    axes.set(title="share against a flow without deadline", xlabel="urgency s", ylim=(0, 1), xscale="log")
    axes.set_xticks(AGAINST_NONE, [f"{s:g}" for s in AGAINST_NONE])
    axes.minorticks_off()


EXPERIMENT = Experiment(
    claim="Two flows share a link as UCP's law predicts from their urgencies.",
    figure="Wang, Xu, Liu, slides 25–29",
    minutes=20,
    runner=RunAfterRun(plan),
    on=(TESTBED,),
    seeds=(1, 2, 3),
    quick={"seeds": (1,)},
    claims=claims,
    numbers=numbers,
    draw=draw,
)
