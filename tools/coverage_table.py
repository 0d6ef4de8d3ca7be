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
            files = json.loads(Path(folder, "report.json").read_text())["files"]
    except CoverageException as error:
        print(f"coverage: {error}; run `make coverage`, which measures first", file=sys.stderr)
        return 1
    packages: dict[str, Counter[str]] = {}
    for path, file in sorted(files.items()):  # without measured branches a summary does not have their counts
        counts = {key: file["summary"].get(key, 0) for key in (*KEYS, *COVERED)}
        packages.setdefault(Path(path).parts[0], Counter()).update(counts)
    packages["total"] = sum(packages.values(), Counter())
    print("package     " + "".join(f"{column:>12}" for column in (*COLUMNS, "covered")))
    for name, sums in packages.items():
        print(f"{name:12}" + "".join(f"{sums[key]:12}" for key in KEYS) + f"{percent(sums):10.1f} %")
    measured = percent(packages["total"])
    floor = float(str(coverage.get_option("report:fail_under")))
    where = "fail_under in pyproject.toml"
    if measured < floor:
        print(f"coverage: {measured:.1f} % is below the floor of {floor:g} % ({where}): add tests")
        return 2
    if measured >= floor + 2:
        print(f"coverage: {measured:.1f} %; raise {where} from {floor:g} to {measured - 1:.0f}")
    return 0


def percent(counts: Mapping[str, int]) -> float:
    """Return the share of statements and branches that ran; 100 if there are none."""
    possible = counts["num_statements"] + counts["num_branches"]
    return 100 * (counts["covered_lines"] + counts["covered_branches"]) / possible if possible else 100.0


if __name__ == "__main__":
    sys.exit(main())
