# SPDX-License-Identifier: Apache-2.0
"""Warnings that a reader needs before trusting a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sluice.report.figures import loads_of
from sluice.report.numbers import count
from sluice.report.runs import Run, Variant, differing

EXPECTED_TO_DIFFER = ("scheme.", "transport.")
"""Keys that may differ: a scheme has its own settings, and its hosts use the timers that its authors gave."""


def invalid_runs(runs: Sequence[Run]) -> list[tuple[str, int]]:
    """Return why runs are not valid, with the number of runs for each reason, the most frequent first."""
    return Counter(reason for run in runs for reason in run.summary["valid"]["reasons"]).most_common()


def notices(variants: Sequence[Variant]) -> list[str]:
    """Return the warnings as sentences; none if all runs finished and differ only by scheme, load and seed."""
    runs = [run for variant in variants for run in variant.runs]
    return [
        *_different_scenarios(runs),
        *_different_seeds(variants),
        *_different_fabrics(runs),
        *_unfinished(variants),
    ]


def _different_scenarios(runs: Sequence[Run]) -> list[str]:
    keys = [key for key in differing(runs) if not key.startswith(EXPECTED_TO_DIFFER)]
    if not keys:
        return []
    return [
        f"These runs are of different scenarios: {', '.join(keys)} differ. If one line is better, the scheme need "
        "not be the reason."
    ]


def _different_seeds(variants: Sequence[Variant]) -> list[str]:
    found = []
    for load in loads_of(variants):
        seeds = {frozenset(run.seed for run in variant.at(load)) for variant in variants}
        if len(seeds) > 1:
            where = "" if load is None else f" at load {load:g}"
            found.append(
                f"Not all schemes have the same seeds{where}: their means cover different traffic. The table of "
                "completeness lists them."
            )
    return found


def _different_fabrics(runs: Sequence[Run]) -> list[str]:
    fabrics = sorted({run.on for run in runs})
    return [f"This report compares runs on the {' and the '.join(fabrics)}."] if len(fabrics) > 1 else []


def _unfinished(variants: Sequence[Variant]) -> list[str]:
    left = {v.label: sum(run.summary["unfinished"] for run in v.runs) for v in variants}
    named = [f"{label} {count(number)}" for label, number in left.items() if number]
    if not named:
        return []
    return [
        f"Flows that did not finish: {', '.join(named)}. Completion times are those of finished flows only. "
        "Unfinished flows were slow, so a scheme that left many of them looks better than it is."
    ]
