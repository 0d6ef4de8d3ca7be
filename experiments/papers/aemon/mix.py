# SPDX-License-Identifier: Apache-2.0
"""Aemon's five schemes on the testbed (Wang, Xu, Liu, APNet 2017, slides 44–65): overall FCT and deadline misses.

python -m experiments aemon_mix [--out DIR] [--on testbed|simulator] [--seeds 1 2 3] [--flows N] [--set KEY=VALUE]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from experiments.kit.attempts import markdown, numbers, parser, run_all, show, validity_claims, values
from experiments.kit.verdict import Claim, conclude, spread
from experiments.papers.aemon.common import figures
from sluice.runs.files import read_document
from sluice.sweep.points import points
from sluice.sweep.table import Row

SCENARIO = Path(__file__).parents[2] / "checks" / "scheme_tour" / "tour.toml"
SCHEMES = ("aemon", "karuna", "pias", "pias+ucp", "2lps+dctcp")
FLOWS = 1000
LOAD = 0.8
ALL, PLAIN, TIMED, MISSED = "fct_us_all_mean", "fct_us_plain_mean", "fct_us_timed_mean", "miss_ratio"
DEADLINES = {"deadlines.min": "400ms", "deadlines.max": "2s"}
"""Against the mean flow's time on an idle link as in experiments/papers/aemon: 15 to 75 times."""
IN_TIME = (
    "2LPS promotes a flow with a deadline by urgency, so that it is in time rather than soon: its FCT follows its "
    "deadline, and the average over all flows with it"
)


def main(argv: list[str] | None = None) -> int:
    arguments = parser("aemon_mix", __doc__, flows=FLOWS, seeds=(1, 2, 3)).parse_args(argv)
    document = read_document(SCENARIO)
    settings = {"workload.flows": arguments.flows, **DEADLINES, **dict(arguments.set)}
    found = points(document, schemes=SCHEMES, loads=[LOAD], seeds=arguments.seeds, settings=settings)
    table = [row | figures(arguments.out / row["bundle"]) for row in run_all(found, arguments)]
    show(f"aemon_mix on the {arguments.on}", table)
    (arguments.out / "table.md").write_text(markdown(table))
    deadlines = {
        scheme: {column: values(table, scheme, column) for column in (PLAIN, TIMED)} for scheme in SCHEMES
    }
    return conclude(
        arguments.out, "aemon_mix", claims_of(table), {"all": numbers(table), "by deadline": deadlines}
    )


def claims_of(table: Sequence[Row]) -> list[Claim]:
    """What the slides find on 144 hosts, here on four and at a two-hundredth of the rate."""
    missed = {scheme: fmean(values(table, scheme, MISSED)) for scheme in SCHEMES}
    shown = ", ".join(f"{scheme} {100 * ratio:.1f}" for scheme, ratio in missed.items())
    least = all(missed["aemon"] <= missed[scheme] for scheme in ("pias", "pias+ucp", "2lps+dctcp"))
    return [
        *validity_claims(table),
        _ratio(table, ALL, "overall FCT, Aemon/PIAS", "0.55", "pias", 0.6, IN_TIME),
        _ratio(table, ALL, "overall FCT, Aemon/Karuna", "about the same", "karuna", 1.15, IN_TIME),
        _ratio(table, PLAIN, "FCT without a deadline, Aemon/PIAS", "lower", "pias", 1.0),
        Claim("deadlines missed, %", "Aemon least of those that know no size", shown, least),
    ]


def _ratio(
    table: Sequence[Row], column: str, what: str, paper: str, over: str, at_most: float, why: str = ""
) -> Claim:
    pairs = zip(values(table, "aemon", column), values(table, over, column), strict=True)
    ratios = sorted(a / b for a, b in pairs)
    return Claim(what, paper, spread(ratios), ratios[len(ratios) // 2] <= at_most, why)


if __name__ == "__main__":
    sys.exit(main())
