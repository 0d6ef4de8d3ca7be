# SPDX-License-Identifier: Apache-2.0
"""Aemon's five schemes on real switches: four hosts, a 200th of the slides' rate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.kit.experiment import Claim, Experiment, Given, spread
from experiments.kit.runners import SET, Planned, RunAfterRun, as_on_testbed, axes, one_group
from experiments.kit.runs import BOTH_FABRICS, Results, Runs, all_valid, by_scheme, scheme_table
from experiments.papers.aemon.common import AGNOSTIC, ALL, MISSED, PLAIN, SLIDES, TIMED, columns

SCENARIO = Path(__file__).parents[2] / "checks" / "tour.toml"
DEADLINES = {"deadlines.min": "400ms", "deadlines.max": "2s"}
"""As in aemon_fct: 15 to 75 times the mean flow's time on an idle link."""
IN_TIME = (
    "2LPS promotes a deadline flow by urgency, so that it ends shortly before its deadline. So its FCT depends on "
    "the deadline, and so does the average over all flows"
)


def plan(given: Given) -> Mapping[str, Planned]:
    found = axes(given, SCENARIO, schemes=SLIDES, settings=DEADLINES)
    return one_group(given, as_on_testbed(given, found))


def claims(results: Results) -> list[Claim]:
    runs = results.runs
    missed = {scheme: fmean(runs.values(MISSED, scheme)) for scheme in SLIDES}
    shown = ", ".join(f"{scheme} {100 * ratio:.1f}" for scheme, ratio in missed.items())
    least = all(missed["aemon"] <= missed[scheme] for scheme in AGNOSTIC)
    return [
        *all_valid(runs),
        _ratio(runs, ALL, "overall FCT, Aemon/PIAS", "0.55", "pias", 0.6, IN_TIME),
        _ratio(runs, ALL, "overall FCT, Aemon/Karuna", "about the same", "karuna", 1.15, IN_TIME),
        _ratio(runs, PLAIN, "FCT without a deadline, Aemon/PIAS", "lower", "pias", 1.0),
        Claim("deadlines missed, %", "Aemon least of those that know no size", shown, least),
    ]


def _ratio(runs: Runs, column: str, what: str, paper: str, over: str, at_most: float, why: str = "") -> Claim:
    ratios = sorted(runs.ratios(column, "aemon", over))
    return Claim(what, paper, spread(ratios), ratios[len(ratios) // 2] <= at_most, why)


def numbers(results: Results) -> dict[str, Any]:
    runs = results.runs
    by_deadline = {scheme: {c: runs.values(c, scheme) for c in (PLAIN, TIMED)} for scheme in SLIDES}
    return {"all": by_scheme(runs), "by deadline": by_deadline}


EXPERIMENT = Experiment(
    name="aemon_mix",
    claim="On real switches Aemon lowers the overall FCT and misses the fewest deadlines.",
    figure="Wang, Xu, Liu, slides 44–65",
    minutes=15,
    about=__doc__,
    runner=RunAfterRun(plan, columns),
    on=BOTH_FABRICS,
    seeds=(1, 2, 3),
    loads=(0.8,),
    flows=1000,
    options=(SET,),
    quick={"seeds": (1,), "flows": 200},
    claims=claims,
    numbers=numbers,
    table=scheme_table,
)
