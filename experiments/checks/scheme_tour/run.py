# SPDX-License-Identifier: Apache-2.0
"""Every scheme of the testbed under one workload: FCT by class, deadline misses, retransmissions.

python -m experiments scheme_tour [--out DIR] [--on testbed|simulator] [--seeds 1 2 3] [--flows N] [--schemes …]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from experiments.kit.attempts import (
    markdown,
    numbers,
    parser,
    run_all,
    schemes_of_testbed,
    show,
    validity_claims,
    values,
)
from experiments.kit.verdict import Claim, conclude
from sluice.runs.files import read_document
from sluice.sweep.points import points
from sluice.sweep.table import Row

SCENARIO = Path(__file__).with_name("tour.toml")
FLOWS = 800
FIGURES = {"small mean": "fct_us_small_mean", "all mean": "fct_us_all_mean", "misses": "miss_ratio"}


def main(argv: list[str] | None = None) -> int:
    made = parser("scheme_tour", __doc__, flows=FLOWS, seeds=(1, 2, 3))
    made.add_argument(
        "--schemes", nargs="+", choices=schemes_of_testbed(), default=list(schemes_of_testbed())
    )
    arguments = made.parse_args(argv)
    settings = {"workload.flows": arguments.flows, **dict(arguments.set)}
    document = read_document(SCENARIO)
    table = run_all(
        points(document, schemes=arguments.schemes, seeds=arguments.seeds, settings=settings), arguments
    )
    show(f"scheme_tour on the {arguments.on}", table)
    (arguments.out / "table.md").write_text(markdown(table))
    return conclude(arguments.out, "scheme_tour", claims_of(table, arguments.schemes), numbers(table))


def claims_of(table: Sequence[Row], schemes: Sequence[str]) -> list[Claim]:
    """The order of the schemes by each figure, for comparison with the other fabric's; and what it is worth."""
    orders = [
        Claim(f"order of the schemes by {title}", "–", ", ".join(order(table, schemes, column)), True)
        for title, column in FIGURES.items()
    ]
    return [*validity_claims(table), *orders]


def order(table: Sequence[Row], schemes: Sequence[str], column: str) -> list[str]:
    """Best first, by the mean over the seeds."""
    return sorted(schemes, key=lambda scheme: fmean(values(table, scheme, column)))


if __name__ == "__main__":
    sys.exit(main())
