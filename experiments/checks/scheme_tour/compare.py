# SPDX-License-Identifier: Apache-2.0
"""Do both fabrics put the schemes into the same order? From the verdicts of two runs of scheme_tour, aemon_mix or
fish_burst.

Seed by seed, for both have the same flows: which long flows a seed draws makes more of a difference than any scheme.

python -m experiments.checks.scheme_tour.compare results/scheme_tour results/scheme_tour-simulator [--out DIR]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

from experiments.kit.verdict import Claim, conclude

FIGURES = {
    "small mean": "fct_us_small_mean",
    "small p99": "fct_us_small_p99",
    "medium mean": "fct_us_medium_mean",
    "large mean": "fct_us_large_mean",
    "all mean": "fct_us_all_mean",
    "miss ratio": "miss_ratio",
}
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
        claim_of(title, _values(ours, column), _values(theirs, column))
        for title, column in FIGURES.items()
        if _is_known(ours, column) and _is_known(theirs, column)
    ]
    arguments.out.mkdir(parents=True, exist_ok=True)
    return conclude(arguments.out, "scheme_order", claims, {"ours": ours, "theirs": theirs})


def _numbers(folder: Path) -> dict[str, dict[str, list[float]]]:
    numbers: dict[str, dict[str, list[float]]] = json.loads((folder / "verdict.json").read_text())["numbers"]
    return numbers.get("all", numbers)  # type: ignore[return-value]


def _is_known(numbers: Mapping[str, Mapping[str, Sequence[float | None]]], column: str) -> bool:
    """Without deadlines none is missed."""
    return all(value is not None for figures in numbers.values() for value in figures[column])


def _values(numbers: Mapping[str, Mapping[str, list[float]]], column: str) -> dict[str, list[float]]:
    return {scheme: figures[column] for scheme, figures in numbers.items()}


def claim_of(title: str, ours: Values, theirs: Values) -> Claim:
    """Of all pairs of which both fabrics are sure: as many as are in the same order, and the others by name."""
    schemes = [scheme for scheme in ours if scheme in theirs]
    same, contrary = 0, []
    for a, b in combinations(schemes, 2):
        product = surely_less(ours[a], ours[b]) * surely_less(theirs[a], theirs[b])
        same += product > 0
        contrary += [f"{a} and {b}"] if product < 0 else []
    shown = f"{same} of {same + len(contrary)}" + (f"; not {', '.join(contrary)}" if contrary else "")
    what = f"order of {len(schemes)} schemes by {title}: pairs of which both are sure"
    return Claim(what, "all the same", shown, not contrary)


def surely_less(these: Sequence[float], those: Sequence[float]) -> int:
    """1: in every seed, by MARGIN; -1: surely more; 0: neither, or one seed only."""
    pairs = list(zip(these, those, strict=True))
    if len(pairs) < 2:
        return 0
    if all(a < (1 - MARGIN) * b for a, b in pairs):
        return 1
    return -1 if all(b < (1 - MARGIN) * a for a, b in pairs) else 0


if __name__ == "__main__":
    sys.exit(main())
