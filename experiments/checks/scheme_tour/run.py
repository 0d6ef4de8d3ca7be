# SPDX-License-Identifier: Apache-2.0
"""Every scheme of the testbed under one workload: FCT by class, misses, retransmissions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

from experiments.kit.experiment import Claim, Experiment, Given, option
from experiments.kit.runners import SET, Planned, RunAfterRun, as_on_testbed, axes, one_group
from experiments.kit.runs import (
    BOTH_FABRICS,
    Results,
    Runs,
    all_valid,
    by_scheme,
    noted,
    scheme_table,
    schemes_of_testbed,
)

SCENARIO = Path(__file__).with_name("tour.toml")
FIGURES = {"small mean": "fct_us_small_mean", "all mean": "fct_us_all_mean", "misses": "miss_ratio"}
SCHEMES = option(
    "--schemes",
    nargs="+",
    choices=schemes_of_testbed(),
    default=list(schemes_of_testbed()),
    help="default: all that the testbed's switches can carry out",
)


def plan(given: Given) -> Mapping[str, Planned]:
    return one_group(given, as_on_testbed(given, axes(given, SCENARIO, schemes=given["schemes"])))


def claims(results: Results) -> list[Claim]:
    """Return the claims of validity, and the order of the schemes by each figure for a comparison
    of fabrics."""
    orders = [
        noted(f"order of the schemes by {title}", ", ".join(order(results.runs, column)))
        for title, column in FIGURES.items()
    ]
    return [*all_valid(results.runs), *orders]


def order(runs: Runs, column: str) -> list[str]:
    """Return the schemes by their mean over the seeds, best first."""
    return sorted(runs.variants, key=lambda scheme: fmean(runs.values(column, scheme)))


EXPERIMENT = Experiment(
    name="scheme_tour",
    claim="Every scheme that switches can carry out finishes all flows in valid runs.",
    figure="",
    minutes=35,
    about=__doc__,
    runner=RunAfterRun(plan),
    on=BOTH_FABRICS,
    seeds=(1, 2, 3),
    flows=800,
    options=(SCHEMES, SET),
    quick={"seeds": (1,), "flows": 150, "schemes": ["dctcp", "pias", "sluice"]},
    claims=claims,
    numbers=lambda results: by_scheme(results.runs),
    table=scheme_table,
)
