# SPDX-License-Identifier: Apache-2.0
"""Several schemes under one workload: the numbers of a verdict, and a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.kit.runs import Results, Run, Runs
from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.policy.schemes import SCHEMES
from sluice.report.numbers import Scale, estimate
from sluice.sweep.table import COLUMNS

BOTH_FABRICS = (TESTBED, SIMULATOR)
SHOWN = (*COLUMNS, ("retransmissions", "retransmissions", 1.0))
KEPT = (
    *(column for _, column, _ in SHOWN),
    "fct_us_medium_p99",
    "fct_us_large_p99",
    "timeouts",
    "unfinished",
    "valid",
    "attempts",
    "reasons",
)
"""Columns of a verdict's numbers."""


def schemes_of_testbed() -> tuple[str, ...]:
    """Return the schemes that the testbed's switches can carry out."""
    return tuple(name for name, scheme in SCHEMES.items() if not scheme.needs)


def by_scheme(runs: Runs) -> dict[str, Any]:
    """Return every figure of every scheme, one value for each seed."""
    return {
        variant: {
            "seeds": [run.seed for run in runs.at(variant)],
            **{column: runs.raw(column, variant) for column in KEPT},
        }
        for variant in runs.variants
    }


def scheme_table(results: Results) -> str:
    """Return a Markdown table, one line for each scheme: means over the seeds ± standard
    deviation, FCT in ms."""
    headings = [heading for heading, *_ in SHOWN]
    lines = [f"| scheme | {' | '.join(headings)} | valid |", "|---" * (len(headings) + 2) + "|"]
    for variant in results.runs.variants:
        found = results.runs.at(variant)
        lines.append(f"| {variant} | {' | '.join(_cells(found))} | {_valid(found)} |")
    return "\n".join(lines) + "\n"


def _cells(runs: Sequence[Run]) -> list[str]:
    return [Scale("", factor).show(estimate(run.row[column] for run in runs)) for _, column, factor in SHOWN]


def _valid(runs: Sequence[Run]) -> str:
    return f"{sum(run.valid for run in runs)}/{len(runs)}"
