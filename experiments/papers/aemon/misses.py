# SPDX-License-Identifier: Apache-2.0
"""Aemon's deadline misses (Wang, Xu, Liu, APNet 2017, slides 58–65): data mining on 144 hosts, 30 % with deadlines.

python -m experiments aemon_misses [--out DIR] [--seeds 1 2 3] [--loads 0.75 …] [--flows N] [--no-variants]
"""

from __future__ import annotations

import sys
from statistics import median

from experiments.kit.runs import ByLoad, Panel, parser, plot
from experiments.kit.verdict import Claim, conclude
from experiments.papers.aemon.common import (
    AGNOSTIC,
    LINES,
    LOADS,
    OURS,
    SLIDES,
    VARIED_LOAD,
    add_no_variants,
    run_main,
    run_varied,
)

FLOWS = 50_000
SCHEMES = (*SLIDES, OURS)
RANGE = (0.035, 0.065)
"""What passes for the figure's 4 to 6 %."""
SLIGHTLY = 0.01
"""Miss ratios that differ by no more than this differ slightly: half of the figure's range."""

MISSED = "miss_ratio"
COLUMNS = {
    "miss ratio": MISSED,
    "impossible": "impossible",
    "without deadline, mean, us": "fct_us_plain_mean",
    "with deadline, mean, us": "fct_us_timed_mean",
    "all mean, us": "fct_us_all_mean",
    "small mean, us": "fct_us_small_mean",
    "timeouts": "timeouts",
    "dropped": "dropped",
    "unfinished": "unfinished",
}
PANELS = (
    Panel("deadlines missed", MISSED, "%", 100),
    Panel("of them, impossible", "impossible", "%", 100),
    Panel("without a deadline", "fct_us_plain_mean", "mean FCT (ms)", 1e-3),
    Panel("with a deadline", "fct_us_timed_mean", "mean FCT (ms)", 1e-3),
)


def main(argv: list[str] | None = None) -> int:
    made = parser("aemon_misses", __doc__, flows=FLOWS, loads=LOADS)
    add_no_variants(made)
    arguments = made.parse_args(argv)
    runs = run_main("aemon-data-mining", arguments, SCHEMES)
    varied = run_varied("aemon-data-mining", arguments, SCHEMES)
    plot(
        [("", runs)],
        PANELS,
        {scheme: LINES[scheme] for scheme in SCHEMES},
        arguments.out / "aemon_misses.png",
    )
    numbers = {"main": runs.figures(COLUMNS), **{name: one.figures(COLUMNS) for name, one in varied.items()}}
    return conclude(arguments.out, "aemon_misses", [*claims_of(runs), *varied_claims(varied)], numbers)


def claims_of(runs: ByLoad) -> list[Claim]:
    """What the slides say."""
    missed = {scheme: {load: runs.median(MISSED, scheme, load) for load in runs.loads} for scheme in SCHEMES}
    low, high = RANGE
    return [
        Claim(
            "deadlines missed, Aemon",
            "4 to 6 %",
            percents(missed["aemon"]),
            all(low <= ratio <= high for ratio in missed["aemon"].values()),
        ),
        Claim(
            "deadlines missed, best of the others that know no size",
            "more than Aemon",
            percents(_best_other(missed)),
            all(missed["aemon"][load] <= value for load, value in _best_other(missed).items()),
            "more than half of what is missed nobody can meet, nearly all of the rest needs 2 to 10 Gb/s, and the "
            "schemes differ by some ten flows of 9,000. Under web search Aemon misses least (aemon_fct)",
        ),
        _between(
            "deadlines missed, Aemon over Karuna",
            "slightly more",
            missed,
            "aemon",
            "karuna",
            0,
            SLIGHTLY,
            "a point and a hundredth at most, where one passes",
        ),
        _between(
            "deadlines missed, PIAS + UCP over PIAS",
            "slightly less",
            missed,
            "pias+ucp",
            "pias",
            -SLIGHTLY,
            0,
        ),
        Claim("deadlines missed, Sluice", "–", percents(missed[OURS]), True),
        Claim(
            "deadlines that no scheme can meet",
            "–",
            percents({load: runs.median("impossible", "pias", load) for load in runs.loads}),
            True,
        ),
        Claim("unfinished flows", "0", str(runs.unfinished), runs.unfinished == 0),
    ]


Missed = dict[str, dict[float, float]]
"""Miss ratio by scheme and load."""


def _best_other(missed: Missed) -> dict[float, float]:
    others = [scheme for scheme in AGNOSTIC if scheme != "aemon"]
    return {load: min(missed[scheme][load] for scheme in others) for load in missed["aemon"]}


def _between(
    what: str,
    paper: str,
    missed: Missed,
    scheme: str,
    over: str,
    least: float,
    most: float,
    explanation: str = "",
) -> Claim:
    """The difference of two miss ratios lies within these bounds at every load."""
    differences = {load: missed[scheme][load] - missed[over][load] for load in missed[scheme]}
    holds = all(least <= difference <= most for difference in differences.values())
    return Claim(what, paper, percents(differences, signed=True), holds, explanation)


def percents(ratios: dict[float, float], *, signed: bool = False) -> str:
    """4.2, 4.9 % at loads 0.75, 0.8."""
    sign = "+" if signed else ""
    shown = ", ".join(f"{100 * ratio:{sign}.2f}" for ratio in ratios.values()).replace("-", "−")
    return f"{shown} % at load{'s' if len(ratios) > 1 else ''} {', '.join(f'{load:g}' for load in ratios)}"


def varied_claims(varied: dict[str, ByLoad]) -> list[Claim]:
    """Who misses how many where the slides leave the set-up open."""
    claims = []
    for name, runs in varied.items():
        missed = {scheme: median(runs.values(MISSED, scheme, VARIED_LOAD)) for scheme in SCHEMES}
        shown = ", ".join(f"{LINES[scheme].title} {100 * value:.2f}" for scheme, value in missed.items())
        best = all(missed["aemon"] <= missed[scheme] for scheme in AGNOSTIC)
        floor = 100 * median(runs.values("impossible", "pias", VARIED_LOAD))
        what = f"{name}: deadlines missed at load {VARIED_LOAD:g}"
        claims.append(Claim(what, "Aemon least", f"{shown} % ({floor:.2f} % are impossible)", best))
    return claims


if __name__ == "__main__":
    sys.exit(main())
