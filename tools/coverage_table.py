# SPDX-License-Identifier: Apache-2.0
"""`python -m tools.coverage_table`: print the measured coverage of each package, and compare the total with the floor.

Coverage counts statements and branches together. The floor is `fail_under` in pyproject.toml.
"""

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coverage import Coverage
from coverage.exceptions import CoverageException

COLUMNS = ("statements", "missing", "branches", "partial")
KEYS = ("num_statements", "missing_lines", "num_branches", "num_partial_branches")
COVERED = ("covered_lines", "covered_branches")


def main() -> int:
    """Print the table. Returns 0, 1 without measured data, 2 below the floor."""
    coverage = Coverage()
    try:
        coverage.load()
        with tempfile.TemporaryDirectory() as folder:
            coverage.json_report(outfile=f"{folder}/report.json")
            report = json.loads(Path(folder, "report.json").read_text())
    except CoverageException as error:
        print(f"coverage: {error}; run `make coverage`, which measures first", file=sys.stderr)
        return 1
    packages = by_package(report["files"])
    print("\n".join(table(packages)))
    return verdict(
        percent(sum(packages.values(), Counter())), float(str(coverage.get_option("report:fail_under")))
    )


def by_package(files: Mapping[str, Any]) -> dict[str, Counter[str]]:
    """Return the sums of the files' summaries, by the first folder of their paths.

    Without measured branches a summary does not have their counts.
    """
    packages: dict[str, Counter[str]] = {}
    for path, file in sorted(files.items()):
        counts = {key: file["summary"].get(key, 0) for key in (*KEYS, *COVERED)}
        packages.setdefault(Path(path).parts[0], Counter()).update(counts)
    return packages


def percent(counts: Mapping[str, int]) -> float:
    """Return the share of statements and branches that ran; 100 if there are none."""
    possible = counts["num_statements"] + counts["num_branches"]
    return 100 * (counts["covered_lines"] + counts["covered_branches"]) / possible if possible else 100.0


def table(packages: Mapping[str, Counter[str]]) -> list[str]:
    """Return the lines of the table, the total last."""
    rows = {**packages, "total": sum(packages.values(), Counter())}
    lines = ["package     " + "".join(f"{column:>12}" for column in (*COLUMNS, "covered"))]
    for name, counts in rows.items():
        lines.append(
            f"{name:12}" + "".join(f"{counts[key]:12}" for key in KEYS) + f"{percent(counts):10.1f} %"
        )
    return lines


def verdict(measured: float, floor: float) -> int:
    """Compare the total with the floor, print the outcome, and return the exit code."""
    if measured < floor:
        print(
            f"coverage: {measured:.1f} % is below the floor of {floor:g} % (fail_under in pyproject.toml): add tests"
        )
        return 2
    if measured >= floor + 2:
        print(
            f"coverage: {measured:.1f} %; raise fail_under in pyproject.toml from {floor:g} to {measured - 1:.0f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
