# SPDX-License-Identifier: Apache-2.0
"""Every scheme of the testbed under one workload, and whether both fabrics put the schemes into the same order.

The figures are FCT by class, misses and retransmissions. The order comes from two verdicts of scheme_tour, aemon_mix or
fish_burst, because their fabrics have the same flows.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean

from experiments.kit.experiment import Claim, Experiment, Given, Script, option, read_verdict, some_of
from experiments.kit.runners import SET, Planned, RunAfterRun, as_on_testbed, axes, one_group
from experiments.kit.runs import (
    BOTH_FABRICS,
    Results,
    Runs,
    all_valid,
    noted,
    scheme_table,
    schemes_of_testbed,
)
from sluice.commands.arguments import existing_folder

SCENARIO = Path(__file__).with_name("tour.toml")
FIGURES = {"small mean": "fct_us_small_mean", "all mean": "fct_us_all_mean", "misses": "miss_ratio"}
SCHEMES = some_of("--schemes", schemes_of_testbed(), "schemes that the testbed's switches can carry out")


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
    claim="Every scheme that switches can carry out finishes all flows in valid runs.",
    minutes=35,
    about="Every scheme of the testbed under one workload: FCT by class, misses, retransmissions.",
    runner=RunAfterRun(plan),
    on=BOTH_FABRICS,
    seeds=(1, 2, 3),
    flows=800,
    options=(SCHEMES, SET),
    quick={"seeds": (1,), "flows": 150, "schemes": ["dctcp", "pias", "sluice"]},
    claims=claims,
    table=scheme_table,
)


ORDER_ABOUT = """\
Whether both fabrics put the schemes into the same order.

It reads two verdicts of scheme_tour, aemon_mix or fish_burst. It compares the schemes seed by
seed, because both fabrics have the same flows. The long flows that a seed draws make more of a
difference than any scheme."""

ORDER_FIGURES = {
    "small mean": "fct_us_small_mean",
    "small p99": "fct_us_small_p99",
    "medium mean": "fct_us_medium_mean",
    "large mean": "fct_us_large_mean",
    "all mean": "fct_us_all_mean",
    "miss ratio": "miss_ratio",
}
MARGIN = 0.03
"""Figures that differ by less are equal."""

Values = Mapping[str, Sequence[float]]
"""Scheme → one value for each seed."""
Numbers = Mapping[str, Mapping[str, Sequence[float]]]
"""Scheme → the values of each column."""


def measure(given: Given) -> dict[str, Numbers]:
    return {side: read_verdict(given[side])["numbers"] for side in ("ours", "theirs")}


def order_claims(sides: Mapping[str, Numbers]) -> list[Claim]:
    ours, theirs = sides["ours"], sides["theirs"]
    return [
        claim_of(title, _values(ours, column), _values(theirs, column))
        for title, column in ORDER_FIGURES.items()
        if _is_known(ours, column) and _is_known(theirs, column)
    ]


def _is_known(numbers: Numbers, column: str) -> bool:
    """Whether every scheme has the figure. Without deadlines none can be missed."""
    return all(value is not None for figures in numbers.values() for value in figures[column])


def _values(numbers: Numbers, column: str) -> Values:
    return {scheme: figures[column] for scheme, figures in numbers.items()}


def claim_of(title: str, ours: Values, theirs: Values) -> Claim:
    """Claim that pairs of which both fabrics are sure have the same order, and name the others."""
    schemes = [scheme for scheme in ours if scheme in theirs]
    same, contrary = 0, []
    for a, b in combinations(schemes, 2):
        product = surely_less(ours[a], ours[b]) * surely_less(theirs[a], theirs[b])
        same += product > 0
        contrary += [f"{a} and {b}"] if product < 0 else []
    shown = f"{same} of {same + len(contrary)}" + (f"; not {', '.join(contrary)}" if contrary else "")
    what = f"order of {len(schemes)} schemes by {title}: pairs with a clear order on both fabrics"
    return Claim(what, "all the same", shown, not contrary)


def surely_less(these: Sequence[float], those: Sequence[float]) -> int:
    """Return 1 if these are lower in every seed, by MARGIN; -1 if higher; 0 if neither, or with a
    single seed."""
    pairs = list(zip(these, those, strict=True))
    if len(pairs) < 2:
        return 0
    if all(a < (1 - MARGIN) * b for a, b in pairs):
        return 1
    return -1 if all(b < (1 - MARGIN) * a for a, b in pairs) else 0


ORDER = Experiment(
    claim="Testbed and simulator put the schemes into the same order.",
    minutes=0.1,
    about=ORDER_ABOUT,
    runner=Script(measure),
    options=(
        option("ours", "folder with the verdict.json of one fabric", type=existing_folder),
        option("theirs", "folder with the verdict.json of the other", type=existing_folder),
    ),
    claims=order_claims,
    numbers=lambda sides: sides,
)
