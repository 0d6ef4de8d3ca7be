# SPDX-License-Identifier: Apache-2.0
"""Aemon's average FCT (Wang, Xu, Liu, APNet 2017, slides 46–57): web search on 144 hosts, 30 % with deadlines.

python -m experiments aemon_fct [--out DIR] [--seeds 1 2 3] [--loads 0.75 …] [--flows N] [--no-variants]
"""

from __future__ import annotations

import sys
from statistics import median

from experiments.kit.runs import ByLoad, Panel, over_loads, parser, plot
from experiments.kit.verdict import Claim, conclude, spread
from experiments.papers.aemon.common import (
    LINES,
    LOADS,
    OURS,
    SLIDES,
    VARIED_LOAD,
    add_no_variants,
    run_main,
    run_varied,
)

FLOWS = 100_000
SCHEMES = (*SLIDES, OURS, "pias-optimal", "pfabric")
VARIED_SCHEMES = ("aemon", "pias")
AS_CLAIMED = 0.6
"""Aemon's average over PIAS's: what passes for "about -45.1 %"."""

ALL, PLAIN, TIMED = "fct_us_all_mean", "fct_us_plain_mean", "fct_us_timed_mean"
COLUMNS = {
    "all mean, us": ALL,
    "without deadline, mean, us": PLAIN,
    "with deadline, mean, us": TIMED,
    "small mean, us": "fct_us_small_mean",
    "medium mean, us": "fct_us_medium_mean",
    "large mean, us": "fct_us_large_mean",
    "miss ratio": "miss_ratio",
    "timeouts": "timeouts",
    "dropped": "dropped",
    "unfinished": "unfinished",
}
PANELS = (
    Panel("all flows", ALL, "mean FCT (ms)", 1e-3),
    Panel("without a deadline", PLAIN, "mean FCT (ms)", 1e-3),
    Panel("with a deadline", TIMED, "mean FCT (ms)", 1e-3),
    Panel("deadlines missed", "miss_ratio", "%", 100),
)


def main(argv: list[str] | None = None) -> int:
    made = parser("aemon_fct", __doc__, flows=FLOWS, loads=LOADS)
    add_no_variants(made)
    arguments = made.parse_args(argv)
    runs = run_main("aemon", arguments, SCHEMES)
    varied = run_varied("aemon", arguments, VARIED_SCHEMES)
    lines = {scheme: LINES[scheme] for scheme in SCHEMES if scheme != "pfabric"}
    plot([("", runs)], PANELS, lines, arguments.out / "aemon_fct.png")
    numbers = {"main": runs.figures(COLUMNS), **{name: one.figures(COLUMNS) for name, one in varied.items()}}
    return conclude(arguments.out, "aemon_fct", [*claims_of(runs), *varied_claims(varied)], numbers)


def claims_of(runs: ByLoad) -> list[Claim]:
    """What the slides say, and what bounds it."""
    overall = runs.ratio_by_load(ALL, "aemon", "pias")
    bound = runs.ratio_by_load(ALL, "pfabric", "pias")
    best = runs.ratio_by_load(ALL, "pias-optimal", "pias")
    plain = {scheme: runs.ratio_by_load(PLAIN, scheme, "pias") for scheme in SCHEMES}
    return [
        Claim(
            "average FCT, Aemon/PIAS",
            "0.55",
            over_loads(overall),
            max(overall.values()) <= AS_CLAIMED,
            f"under this traffic not even the shortest remaining flow first, told every size, has less than "
            f"{min(bound.values()):.2f} of PIAS's average; Aemon gives to flows without deadlines what it takes from "
            "the others",
        ),
        _lower("without a deadline: average FCT, Aemon/PIAS", plain["aemon"]),
        _lower(
            "without a deadline: average FCT, PIAS + UCP/PIAS",
            plain["pias+ucp"],
            "to a flow without a deadline UCP is DCTCP, and those with one take more than their share near theirs: "
            "the same within 1 %",
        ),
        _lower("without a deadline: average FCT, 2LPS + DCTCP/PIAS", plain["2lps+dctcp"]),
        Claim("average FCT, pFabric/PIAS", "–", over_loads(bound), True),
        Claim("average FCT, PIAS with the best thresholds/PIAS", "–", over_loads(best), True),
        Claim("without a deadline: average FCT, Sluice/PIAS", "–", over_loads(plain[OURS]), True),
        Claim("unfinished flows", "0", str(runs.unfinished), runs.unfinished == 0),
    ]


def _lower(what: str, ratios: dict[float, float], explanation: str = "") -> Claim:
    return Claim(what, "lower", over_loads(ratios), max(ratios.values()) < 1, explanation)


def varied_claims(varied: dict[str, ByLoad]) -> list[Claim]:
    """Aemon's average over PIAS's, all flows and those without deadlines, where the slides leave the set-up open."""
    return [
        Claim(
            f"{name}: average FCT, Aemon/PIAS; without a deadline",
            "0.55",
            f"{spread(runs.ratios(ALL, 'aemon', 'pias', VARIED_LOAD))}; "
            f"{spread(runs.ratios(PLAIN, 'aemon', 'pias', VARIED_LOAD))}",
            median(runs.ratios(ALL, "aemon", "pias", VARIED_LOAD)) <= AS_CLAIMED,
            "as above",
        )
        for name, runs in varied.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
