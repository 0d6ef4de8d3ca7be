# SPDX-License-Identifier: Apache-2.0
"""Aemon's five schemes on the testbed (Wang, Xu, Liu, APNet 2017, slides 44–65): overall FCT and deadline misses.

python -m experiments.aemon_mix.run [--out DIR] [--on testbed|simulator] [--seeds 1 2 3] [--flows N]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from experiments.both_fabrics import markdown, numbers, parser, run_all, show, validity_claims, values
from experiments.files import read_document
from experiments.sweep.points import points
from experiments.sweep.table import Row
from experiments.verdict import Claim, conclude, spread

SCENARIO = Path(__file__).parents[1] / "scheme_tour" / "tour.toml"
SCHEMES = ("aemon", "karuna", "pias", "pias+ucp", "2lps+dctcp")
FLOWS = 1000
LOAD = 0.8
ALL, MISSED = "fct_us_all_mean", "miss_ratio"


def main(argv: list[str] | None = None) -> int:
    arguments = parser("aemon_mix", __doc__, flows=FLOWS, seeds=(1, 2, 3)).parse_args(argv)
    document = read_document(SCENARIO)
    settings = {"workload.flows": arguments.flows}
    found = points(document, schemes=SCHEMES, loads=[LOAD], seeds=arguments.seeds, settings=settings)
    table = run_all(found, arguments)
    show(f"aemon_mix on the {arguments.on}", table)
    (arguments.out / "table.md").write_text(markdown(table))
    return conclude(arguments.out, "aemon_mix", claims_of(table), numbers(table))


def claims_of(table: Sequence[Row]) -> list[Claim]:
    """What the slides find on 144 hosts, here on four and at a two-hundredth of the rate."""
    overall = [
        _lower(table, ALL, f"overall FCT, Aemon over {over}", paper, over, at_most)
        for over, paper, at_most in (("pias", "about 0.55", 1.0), ("karuna", "about the same", 1.15))
    ]
    missed = {scheme: fmean(values(table, scheme, MISSED)) for scheme in SCHEMES}
    shown = ", ".join(f"{scheme} {100 * ratio:.1f}" for scheme, ratio in missed.items())
    least = all(missed["aemon"] <= missed[scheme] for scheme in ("pias", "pias+ucp", "2lps+dctcp"))
    claim = Claim("deadlines missed, %", "Aemon least of those that know no size", shown, least)
    return [*validity_claims(table), *overall, claim]


def _lower(table: Sequence[Row], column: str, what: str, paper: str, over: str, at_most: float) -> Claim:
    pairs = zip(values(table, "aemon", column), values(table, over, column), strict=True)
    ratios = [a / b for a, b in pairs]
    return Claim(what, paper, spread(ratios), sorted(ratios)[len(ratios) // 2] <= at_most)


if __name__ == "__main__":
    sys.exit(main())
