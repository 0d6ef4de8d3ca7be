# SPDX-License-Identifier: Apache-2.0
"""What urgency is worth under UCP (Wang, Xu, Liu, slides 25–29): two long flows share a link, measured against the law.

python -m experiments ucp_share [--out DIR] [--seeds 1 2 3]

Urgency s = T_e / (T_d - T_e) is held by a long past and a far deadline: 300 s elapsed, 300 s / s to go. It moves by
some per cent while the flows are measured, and is s in the middle of that.

Each pair runs twice, with its senders swapped: a software switch takes the packets of its ports in turn, those of the
later port find the longer queue and are marked more often, and of two equal flows one gets two thirds of the link. The
odds of the two runs are averaged (geometric mean); the controls show by how much the place decides.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from experiments.kit.verdict import Claim, conclude, spread
from experiments.papers.datcp.common import Run, column, document, endless, mean_rate_mbps, parser, run
from experiments.papers.datcp.plot import BACKGROUND, DEADLINE, OTHER, save

Pair = tuple[float | None, float | None]
"""Urgencies of the two flows; None: no deadline."""

UCP = {"name": "ucp"}
ELAPSED_S = 300.0
UNTIL_S = 10.0
SETTLED_S = 2.0
"""Shares and readings are taken from here to the end."""
AGAINST_NONE = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Urgencies of one flow; the other has no deadline, which is s = 1."""
AGAINST_EACH_OTHER = ((0.5, 2.0), (0.5, 1.5), (1.0, 2.0))
EQUAL: tuple[Pair, ...] = ((None, None), (1.0, 1.0))
"""Controls: the law makes no difference between these flows, but their places may."""
TOLERANCE = 0.1
"""Of a share."""


@dataclass(frozen=True)
class Outcome:
    """A pair under one seed, in both places. `share` is the first flow's part of what both had."""

    share: float
    by_place: tuple[float, ...]
    """The same in each of the two runs; in the second one the senders are swapped."""
    alpha: tuple[tuple[float, float], ...]
    penalty: tuple[tuple[float, float], ...]
    """Means of alpha^s / 2, what a marked window loses; in each run of both flows."""
    predicted: float
    valid: bool


def main(argv: list[str] | None = None) -> int:
    arguments = parser("ucp_share", __doc__).parse_args(argv)
    pairs: list[Pair] = [*EQUAL, *((s, None) for s in AGAINST_NONE), *AGAINST_EACH_OTHER]
    runs = {pair: [_both_places(arguments.out, pair, seed) for seed in arguments.seeds] for pair in pairs}
    outcomes = {pair: [_outcome(both) for both in some] for pair, some in runs.items()}
    _plot(runs, outcomes, arguments.out / "ucp_share.png")
    claims = [*_yields(outcomes), *(_predicted(pair, outcomes[pair]) for pair in pairs)]
    return conclude(arguments.out, "ucp_share", claims, _numbers(outcomes))


def _name(pair: Pair) -> str:
    first, second = ("no deadline" if s is None else f"s {s:g}" for s in pair)
    return f"{first} against {second}"


def _both_places(out: Path, pair: Pair, seed: int) -> list[Run]:
    return [run(out, _document(pair, seed, senders)) for senders in (("h2", "h3"), ("h3", "h2"))]


def _document(pair: Pair, seed: int, senders: tuple[str, str]) -> dict[str, Any]:
    flows = [
        endless(UNTIL_S, f"flow {i + 1}", **{"from": sender}, **_urgency(s))
        for i, (s, sender) in enumerate(zip(pair, senders, strict=True))
    ]
    name = f"{_name(pair)} from {senders[0]} seed{seed}".replace(" ", "-")
    return document(name, seed, flows, UCP) | {"transport": {"rto_min": "10ms"}}


def _urgency(s: float | None) -> dict[str, str]:
    if s is None:
        return {}
    middle_s = (SETTLED_S + UNTIL_S) / 2
    deadline_s = middle_s + (ELAPSED_S + middle_s) / s
    return {"elapsed": f"{ELAPSED_S:g}s", "deadline": f"{deadline_s:g}s"}


def _outcome(both: Sequence[Run]) -> Outcome:
    rates = [[mean_rate_mbps(one, i, SETTLED_S, UNTIL_S) for i in range(2)] for one in both]
    shares = tuple(first / (first + second) for first, second in rates)
    alpha = tuple((_mean(one, 0, "alpha"), _mean(one, 1, "alpha")) for one in both)
    penalty = tuple((_mean(one, 0, "decrease"), _mean(one, 1, "decrease")) for one in both)
    predicted = balanced([predicted_share(*losses) for losses in penalty])
    return Outcome(balanced(shares), shares, alpha, penalty, predicted, all(one.valid for one in both))


def balanced(shares: Sequence[float]) -> float:
    """The share whose odds are the geometric mean of the odds of these."""
    odds = float(np.exp(np.mean([np.log(share / (1 - share)) for share in shares])))
    return odds / (1 + odds)


def _mean(outcome: Run, index: int, name: str) -> float:
    times, values = column(outcome, index, name)
    return float(np.mean(values[times > SETTLED_S]))


def predicted_share(first: float, second: float) -> float:
    """Share of a flow that loses `first` of its window when marked, beside one that loses `second`.

    Both are marked in the same windows and grow by a packet in the others: a window W loses what it gains between two
    marks, W * loss = n for both, and is W * (1 - loss / 2) in the mean.
    """
    means = [(1 - loss / 2) / loss for loss in (first, second)]
    return means[0] / sum(means)


def _yields(outcomes: dict[Pair, list[Outcome]]) -> list[Claim]:
    claims = []
    for s in AGAINST_NONE:
        shares = [outcome.share for outcome in outcomes[s, None]]
        valid = all(outcome.valid for outcome in outcomes[s, None])
        if s == 1:
            what, holds = "shares evenly", all(abs(share - 0.5) < TOLERANCE for share in shares)
        elif s < 1:
            what, holds = "yields", max(shares) < 0.5
        else:
            what, holds = "takes more", min(shares) > 0.5
        claims.append(
            Claim(f"s = {s:g} {what} beside a flow without deadline", what, spread(shares), holds and valid)
        )
    return claims


def _predicted(pair: Pair, some: Sequence[Outcome]) -> Claim:
    errors = [outcome.share - outcome.predicted for outcome in some]
    predicted = spread([outcome.predicted for outcome in some])
    holds = max(map(abs, errors)) <= TOLERANCE and all(outcome.valid for outcome in some)
    measured = spread([outcome.share for outcome in some])
    return Claim(
        f"{_name(pair)}: share as the law predicts",
        predicted,
        measured,
        holds,
        "the prediction takes both flows to be marked in the same windows; a flow of few packets is marked in fewer",
    )


def _numbers(outcomes: dict[Pair, list[Outcome]]) -> dict[str, Any]:
    return {_name(pair): [vars(outcome) for outcome in some] for pair, some in outcomes.items()}


# -- plots


def _plot(runs: dict[Pair, list[list[Run]]], outcomes: dict[Pair, list[Outcome]], path: Path) -> None:
    figure, (penalties, shares) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
    _plot_penalties(penalties, runs)
    _plot_shares(shares, outcomes)
    save(figure, path)


def _plot_penalties(axes: Axes, runs: dict[Pair, list[list[Run]]]) -> None:
    """The slides' "Window Penalty": every sample of the kernel, its penalty over that of a flow without deadline."""
    s = np.linspace(0.2, 4.2, 100)
    for alpha, style in ((0.2, ":"), (0.4, "--"), (0.6, "-")):
        axes.plot(s, alpha**s / 2, style, color=OTHER, linewidth=1, label=f"law, α = {alpha}")
    for some in runs.values():
        for one in itertools.chain.from_iterable(some):
            for index in range(2):
                urgency, decrease = column(one, index, "urgency"), column(one, index, "decrease")
                axes.plot(urgency[1], decrease[1], ".", color=DEADLINE, markersize=2, alpha=0.3)
    axes.set(
        title="loss of a marked window", xlabel="urgency s", ylabel="α^s / 2", ylim=(0, 0.6), xlim=(0, 5)
    )
    axes.legend(frameon=False, fontsize="small")
    axes.grid(color="0.92")


def _plot_shares(axes: Axes, outcomes: dict[Pair, list[Outcome]]) -> None:
    for s in AGAINST_NONE:
        some = outcomes[s, None]
        axes.plot(
            [s] * len(some), [o.predicted for o in some], "x", color=OTHER, label="law" if s == 1 else None
        )
        axes.plot([s] * len(some), [o.share for o in some], "o", color=DEADLINE, fillstyle="none",
                  label="measured" if s == 1 else None)  # fmt: skip
    axes.axhline(0.5, color=BACKGROUND, linewidth=0.8)
    axes.set(title="share beside a flow without deadline", xlabel="urgency s", ylim=(0, 1), xscale="log")
    axes.set_xticks(AGAINST_NONE, [f"{s:g}" for s in AGAINST_NONE])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize="small")
    axes.grid(color="0.92")


if __name__ == "__main__":
    sys.exit(main())
