# SPDX-License-Identifier: Apache-2.0
"""Experiments over schemes and seeds on the testbed, run after run, and the same runs on the simulator where wanted:
there with the delay and the acknowledgements of an emulated network."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from experiments.kit.emulated import as_emulated
from experiments.kit.verdict import Claim
from policy.fabrics import SIMULATOR, TESTBED
from policy.schemes import SCHEMES
from sluice.report.figures import estimate
from sluice.report.numbers import Scale
from sluice.runs.fabrics import FABRICS, runner
from sluice.runs.files import scenario_with
from sluice.sweep.points import Point, setting
from sluice.sweep.run import is_finished
from sluice.sweep.table import COLUMNS, Row, rows
from sluice.terminal import console, end_in_order, progress_bar

ORDER_COLUMNS = (*COLUMNS, ("retransmissions", "retransmissions", 1.0))


def parser(
    name: str, description: str | None, *, flows: int, seeds: Sequence[int]
) -> argparse.ArgumentParser:
    """The command line of such an experiment."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--out", type=Path, default=Path("results") / name)
    made.add_argument("--on", choices=FABRICS, default=TESTBED, help="default: %(default)s, which needs root")
    made.add_argument("--seeds", type=int, nargs="+", default=list(seeds), help="default: %(default)s")
    made.add_argument("--flows", type=int, default=flows, help="per run (default: %(default)s)")
    made.add_argument(
        "--attempts", type=int, default=3, help="at a run that is not valid (default: %(default)s)"
    )
    made.add_argument(
        "--set",
        type=setting,
        action="append",
        default=[],
        help="another value of the scenario: fabric.buffer=240KB",
    )
    end_in_order()
    return made


def schemes_of_testbed() -> tuple[str, ...]:
    """Those that no lack of the switches forbids."""
    return tuple(name for name, scheme in SCHEMES.items() if not scheme.needs)


def run_all(points: Sequence[Point], arguments: argparse.Namespace) -> list[Row]:
    """A bundle of each point; a row each, with what made it invalid.

    What is there already is not run again, unless it is not valid and has been tried less than `attempts` times.
    """
    if arguments.on == SIMULATOR:
        points = [replace(point, document=as_emulated(point.document)) for point in points]
    for point in points:
        while not _is_enough(arguments.out, point, arguments.attempts):
            _run(point, arguments.out, arguments.on)
    return [row | _doubts(arguments.out / point.name) for row, point in _rows(arguments.out, points)]


def _rows(out: Path, points: Sequence[Point]) -> list[tuple[Row, Point]]:
    return list(zip(rows(out, points), points, strict=True))


def _is_enough(out: Path, point: Point, attempts: int) -> bool:
    if not is_finished(out, point):
        return False
    summary = json.loads((out / point.name / "summary.json").read_text())
    return summary["valid"]["ok"] or _attempts(out / point.name) >= attempts


def _attempts(bundle: Path) -> int:
    path = bundle / "attempts"
    return int(path.read_text()) if path.exists() else 1


def _run(point: Point, out: Path, on: str) -> None:
    bundle = out / point.name
    attempt = _attempts(bundle) + 1 if is_finished(out, point) else 1
    scenario, document = scenario_with(point.document)
    with progress_bar(point.name) as report:
        summary = runner(on)(scenario, document, bundle, report)
    (bundle / "attempts").write_text(str(attempt))
    if not summary["valid"]["ok"]:
        reasons = "; ".join(summary["valid"]["reasons"])
        print(f"{point.name}: attempt {attempt} is not valid: {reasons}", file=sys.stderr)


def _doubts(bundle: Path) -> Row:
    summary = json.loads((bundle / "summary.json").read_text())
    meta = json.loads((bundle / "meta.json").read_text())
    return {
        "reasons": summary["valid"]["reasons"],
        "attempts": _attempts(bundle),
        "timeouts": meta.get("tcp", {}).get("retransmission_timeouts"),
    }


def values(table: Sequence[Row], scheme: str, column: str) -> list[float]:
    """One a seed, in the order of the seeds."""
    found = sorted((row for row in table if row["scheme"] == scheme), key=lambda row: row["seed"])
    return [float("nan") if row[column] is None else row[column] for row in found]


def numbers(table: Sequence[Row]) -> dict[str, Any]:
    """For a verdict: every figure of every scheme, one a seed."""
    columns = [column for _, column, _ in ORDER_COLUMNS]
    columns += ["fct_us_medium_p99", "fct_us_large_p99", "timeouts", "unfinished", "valid", "attempts"]
    schemes = dict.fromkeys(row["scheme"] for row in table)
    return {
        scheme: {
            "seeds": [row["seed"] for row in table if row["scheme"] == scheme],
            **{column: [row[column] for row in table if row["scheme"] == scheme] for column in columns},
            "reasons": [row["reasons"] for row in table if row["scheme"] == scheme],
        }
        for scheme in schemes
    }


def validity_claims(table: Sequence[Row]) -> list[Claim]:
    """What every experiment of this kind has to hold: an invalid run proves nothing."""
    invalid = [row["bundle"] for row in table if not row["valid"]]
    unfinished = sum(row["unfinished"] for row in table)
    return [
        Claim("runs that are valid", "all", f"{len(table) - len(invalid)} of {len(table)}", not invalid),
        Claim("unfinished flows", "0", str(unfinished), unfinished == 0),
    ]


def show(title: str, table: Sequence[Row]) -> None:
    """A line a scheme: means over the seeds, FCT in milliseconds."""
    shown = Table(title=title, title_justify="left")
    shown.add_column("scheme", no_wrap=True)
    for heading, *_ in ORDER_COLUMNS:
        shown.add_column(heading, justify="right")
    shown.add_column("valid", justify="right")
    for scheme, runs in _by_scheme(table).items():
        shown.add_row(scheme, *(cell.split(" ±")[0] for cell in _cells(runs)), _valid(runs))
    console.print(shown)


def markdown(table: Sequence[Row]) -> str:
    """The same for a document, with the standard deviation over the seeds."""
    headings = [heading for heading, *_ in ORDER_COLUMNS]
    lines = [f"| scheme | {' | '.join(headings)} | valid |", "|---" * (len(headings) + 2) + "|"]
    for scheme, runs in _by_scheme(table).items():
        lines.append(f"| {scheme} | {' | '.join(_cells(runs))} | {_valid(runs)} |")
    return "\n".join(lines) + "\n"


def _by_scheme(table: Sequence[Row]) -> dict[str, list[Row]]:
    schemes = dict.fromkeys(row["scheme"] for row in table)
    return {scheme: [row for row in table if row["scheme"] == scheme] for scheme in schemes}


def _cells(runs: Sequence[Row]) -> list[str]:
    return [
        Scale("", factor).show(estimate(row[column] for row in runs)) for _, column, factor in ORDER_COLUMNS
    ]


def _valid(runs: Sequence[Row]) -> str:
    return f"{sum(row['valid'] for row in runs)}/{len(runs)}"
