# SPDX-License-Identifier: Apache-2.0
"""What every experiment ends with: claims of a paper beside what was measured, as JSON and as a table for people.

python -m experiments.kit.verdict results/pias_144 …     the claims of finished experiments as a Markdown table
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from sluice.terminal import console


@dataclass(frozen=True)
class Claim:
    """One statement and how it fared."""

    what: str
    paper: str
    measured: str
    holds: bool
    explanation: str = ""
    """Why it does not hold, where that is understood."""


def conclude(out: Path, name: str, claims: Sequence[Claim], numbers: Any) -> int:
    """Write verdict.json, print the table; exit code 1 when a claim fails and nobody knows why, else 0."""
    document = {"experiment": name, "claims": [asdict(claim) for claim in claims], "numbers": numbers}
    (out / "verdict.json").write_text(json.dumps(document, indent=2) + "\n")
    table = Table(title=name, title_justify="left")
    for heading in ("claim", "paper", "measured", "holds"):
        table.add_column(heading)
    for claim in claims:
        table.add_row(claim.what, claim.paper, claim.measured, "yes" if claim.holds else "[red]no[/]")
    explanations = [f"{c.what}: {c.explanation}" for c in claims if not c.holds and c.explanation]
    console.print(table, *explanations, sep="\n")
    console.print(f"results: {out}")
    return 0 if all(claim.holds or claim.explanation for claim in claims) else 1


def markdown(document: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a table of a verdict's claims."""
    yield "| claim | paper | measured | holds |"
    yield "|---|---|---|---|"
    for claim in document["claims"]:
        holds = "yes" if claim["holds"] else "**no**"
        yield f"| {claim['what']} | {claim['paper']} | {claim['measured']} | {holds} |"


def spread(values: Sequence[float]) -> str:
    """Median and range over seeds, as ratios are shown: 0.62 (0.58 … 0.66)."""
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]:.2f} ({ordered[0]:.2f} … {ordered[-1]:.2f})"


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        print(*markdown(json.loads((Path(folder) / "verdict.json").read_text())), "", sep="\n")
