# SPDX-License-Identifier: Apache-2.0
"""The claims of all seven experiments as one Markdown table, for docs/REPRODUCING.md.

python -m experiments.papers.datcp.table [RESULTS]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path


def rows(results: Path) -> Iterator[str]:
    """One line a claim, figures in order; experiments without a verdict are left out."""
    for verdict in sorted(results.glob("datcp_fig*/verdict.json")):
        document = json.loads(verdict.read_text())
        figure = document["experiment"].removeprefix("datcp_fig").lstrip("0")
        for claim in document["claims"]:
            holds = "yes" if claim["holds"] else "**no**"
            yield f"| {figure} | {claim['what']} | {claim['paper']} | {claim['measured']} | {holds} |"


def main(argv: list[str]) -> int:
    results = Path(argv[0]) if argv else Path("results")
    print("| figure | claim | paper | measured | holds |\n|---|---|---|---|---|", *rows(results), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
