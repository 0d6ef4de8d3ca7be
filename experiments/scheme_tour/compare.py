# SPDX-License-Identifier: Apache-2.0
"""Do both fabrics put the schemes into the same order? From the verdicts of two runs of scheme_tour or aemon_mix.

python -m experiments.scheme_tour.compare results/scheme_tour results/scheme_tour-simulator [--out DIR]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean

from scipy.stats import kendalltau

from experiments.verdict import Claim, conclude

FIGURES = {
    "small mean": "fct_us_small_mean",
    "small p99": "fct_us_small_p99",
    "medium mean": "fct_us_medium_mean",
    "large mean": "fct_us_large_mean",
    "all mean": "fct_us_all_mean",
    "miss ratio": "miss_ratio",
}
AGREE = 0.8
"""Kendall's tau from which orders pass for the same: of ten pairs one is the other way round."""
MARGIN = 0.03
"""Figures that are closer are equal."""

Values = Mapping[str, Sequence[float]]
"""Of each scheme, one a seed."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ours", type=Path, help="folder with a verdict.json")
    parser.add_argument("theirs", type=Path, help="folder with the other")
    parser.add_argument("--out", type=Path, default=Path("results/scheme_order"))
    arguments = parser.parse_args(argv)
    ours, theirs = (_numbers(folder) for folder in (arguments.ours, arguments.theirs))
    claims = [
        claim_of(title, _values(ours, column), _values(theirs, column)) for title, column in FIGURES.items()
    ]
    arguments.out.mkdir(parents=True, exist_ok=True)
    return conclude(arguments.out, "scheme_order", claims, {"ours": ours, "theirs": theirs})


def _numbers(folder: Path) -> dict[str, dict[str, list[float]]]:
    numbers: dict[str, dict[str, list[float]]] = json.loads((folder / "verdict.json").read_text())["numbers"]
    return numbers.get("all", numbers)  # type: ignore[return-value]


def _values(numbers: Mapping[str, Mapping[str, list[float]]], column: str) -> dict[str, list[float]]:
    return {scheme: figures[column] for scheme, figures in numbers.items()}


def claim_of(title: str, ours: Values, theirs: Values) -> Claim:
    """The order by the means over the seeds, and the pairs of which both fabrics are sure, and differ."""
    schemes = [scheme for scheme in ours if scheme in theirs]
    means = [[fmean(values[scheme]) for scheme in schemes] for values in (ours, theirs)]
    if any(len(set(column)) == 1 for column in means):
        return Claim(
            f"order of {len(schemes)} schemes by {title}", "–", "all the same: there is no order", True
        )
    tau = float(kendalltau(*means).statistic)
    swapped = contradictions(ours, theirs, schemes)
    shown = f"tau {tau:.2f}" + (f"; the other way round: {', '.join(swapped)}" if swapped else "")
    return Claim(f"order of {len(schemes)} schemes by {title}", f"tau ≥ {AGREE:g}", shown, tau >= AGREE)


def contradictions(ours: Values, theirs: Values, schemes: Sequence[str]) -> list[str]:
    """Pairs in which one is better in every seed here, and worse in every seed there."""
    return [
        f"{a} and {b}"
        for a, b in combinations(schemes, 2)
        if (surely_less(ours[a], ours[b]) and surely_less(theirs[b], theirs[a]))
        or (surely_less(ours[b], ours[a]) and surely_less(theirs[a], theirs[b]))
    ]


def surely_less(these: Sequence[float], those: Sequence[float]) -> bool:
    """In every seed, by MARGIN, and there are several."""
    return len(these) > 1 and max(these) < (1 - MARGIN) * min(those)


if __name__ == "__main__":
    sys.exit(main())
