# SPDX-License-Identifier: Apache-2.0
"""Average FCT under web search on 144 hosts, where 30 % of the flows have deadlines."""

from __future__ import annotations

from statistics import median

from experiments.kit.draw import Panel, against_load
from experiments.kit.experiment import Claim, Experiment, over_loads, spread
from experiments.kit.runners import Sweep
from experiments.kit.runs import Results, Runs, all_finished, below_one, noted
from experiments.papers.aemon.common import (
    ALL,
    LINES,
    MISSED,
    OURS,
    PLAIN,
    SHARED,
    SLIDES,
    TIMED,
    VARIED_LOAD,
    columns,
    numbers,
    plan,
    varied,
)

SCHEMES = (*SLIDES, OURS, "pias-optimal", "pfabric")
AS_CLAIMED = 0.6
"""The greatest ratio of Aemon's average to PIAS's that counts as "about -45.1 %"."""
SAME = (
    "for flows without a deadline UCP is DCTCP. Deadline flows take more than their share near the deadline. "
    "The two effects leave a difference below 1 %"
)
COLUMNS = {
    "all mean, us": ALL,
    "without deadline, mean, us": PLAIN,
    "with deadline, mean, us": TIMED,
    "small mean, us": "fct_us_small_mean",
    "medium mean, us": "fct_us_medium_mean",
    "large mean, us": "fct_us_large_mean",
    "miss ratio": MISSED,
    "timeouts": "timeouts",
    "dropped": "dropped",
    "unfinished": "unfinished",
}
PANELS = (
    Panel("all flows", ALL, "mean FCT (ms)", 1e-3),
    Panel("without a deadline", PLAIN, "mean FCT (ms)", 1e-3),
    Panel("with a deadline", TIMED, "mean FCT (ms)", 1e-3),
    Panel("deadlines missed", MISSED, "%", 100),
)


def claims(results: Results) -> list[Claim]:
    return [
        *claims_of(results.runs),
        *(_varied_claim(name, runs) for name, runs in varied(results).items()),
    ]


def claims_of(runs: Runs) -> list[Claim]:
    """Return the slides' claims, and the bound on any scheme."""
    overall, bound, best = (
        runs.ratio_by_load(ALL, scheme, "pias") for scheme in ("aemon", "pfabric", "pias-optimal")
    )
    plain = {scheme: runs.ratio_by_load(PLAIN, scheme, "pias") for scheme in SCHEMES}
    why = (
        f"under this traffic not even shortest-remaining-first with known sizes has less than "
        f"{min(bound.values()):.2f} of PIAS's average. Aemon gives flows without deadlines what it takes "
        "from deadline flows"
    )
    holds = max(overall.values()) <= AS_CLAIMED
    return [
        Claim("average FCT, Aemon/PIAS", "0.55", over_loads(overall), holds, why),
        below_one("without a deadline: average FCT, Aemon/PIAS", plain["aemon"]),
        below_one("without a deadline: average FCT, PIAS + UCP/PIAS", plain["pias+ucp"], SAME),
        below_one("without a deadline: average FCT, 2LPS + DCTCP/PIAS", plain["2lps+dctcp"]),
        noted("average FCT, pFabric/PIAS", over_loads(bound)),
        noted("average FCT, PIAS with the best thresholds/PIAS", over_loads(best)),
        noted("without a deadline: average FCT, Sluice/PIAS", over_loads(plain[OURS])),
        all_finished(runs),
    ]


def _varied_claim(name: str, runs: Runs) -> Claim:
    """Claim Aemon's average over PIAS's in another set-up: all flows, and those without deadlines."""
    every, plain = (runs.ratios(column, "aemon", "pias", VARIED_LOAD) for column in (ALL, PLAIN))
    what = f"{name}: average FCT, Aemon/PIAS; without a deadline"
    measured = f"{spread(every)}; {spread(plain)}"
    return Claim(what, "0.55", measured, median(every) <= AS_CLAIMED, "as above")


EXPERIMENT = Experiment(
    name="aemon_fct",
    claim="Aemon lowers the average FCT to 0.55 of PIAS's where 30 % of the flows have deadlines.",
    figure="Wang, Xu, Liu, slides 46–57",
    minutes=190,
    about=__doc__,
    runner=Sweep(plan("aemon", SCHEMES, ("aemon", "pias")), columns),
    flows=100_000,
    claims=claims,
    numbers=numbers(COLUMNS),
    draw=against_load(PANELS, {scheme: LINES[scheme] for scheme in SCHEMES if scheme != "pfabric"}, ["main"]),
    **SHARED,
)
