# SPDX-License-Identifier: Apache-2.0
"""The result of every experiment: its claims with the measured values, as JSON and as a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from sluice.policy.errors import SluiceError
from sluice.terminal import console

FILE = "verdict.json"
QUICK = "A quick run has too few flows and seeds to settle a claim: run it without --quick for that."


@dataclass(frozen=True)
class Claim:
    """One statement, its measured value, and whether it holds."""

    what: str
    paper: str
    measured: str
    holds: bool
    explanation: str = ""
    """Why it does not hold, if the reason is known."""


def conclude(out: Path, name: str, claims: Sequence[Claim], numbers: object, *, quick: bool = False) -> int:
    """Write verdict.json and print the table. The exit code is 1 if a claim fails without an explanation."""
    document = {
        "experiment": name,
        "quick": quick,
        "claims": [asdict(claim) for claim in claims],
        "numbers": numbers,
    }
    (out / FILE).write_text(json.dumps(document, indent=2) + "\n")
    explanations = [f"{c.what}: {c.explanation}" for c in claims if not c.holds and c.explanation]
    console.print(_table(f"{name}, quick" if quick else name, claims), *explanations, sep="\n")
    console.print(*([QUICK] if quick else []), f"results: {out}", sep="\n")
    return 0 if all(claim.holds or claim.explanation for claim in claims) else 1


def _table(title: str, claims: Sequence[Claim]) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in ("claim", "paper", "measured", "holds"):
        table.add_column(heading)
    for claim in claims:
        table.add_row(claim.what, claim.paper, claim.measured, "yes" if claim.holds else "[red]no[/]")
    return table


def read_verdict(folder: Path) -> dict[str, Any]:
    """Return the verdict of a finished experiment. SluiceError: the folder has none."""
    try:
        document: dict[str, Any] = json.loads((folder / FILE).read_text())
    except (FileNotFoundError, NotADirectoryError):
        raise SluiceError(f"{folder} has no {FILE}; give the --out folder of a finished experiment") from None
    except (OSError, ValueError, RecursionError) as error:
        raise SluiceError(f"{folder / FILE}: cannot be used: {error}; run the experiment again") from None
    if not isinstance(document, dict) or not {"experiment", "claims"} <= document.keys():
        raise SluiceError(f"{folder / FILE}: is no verdict; run the experiment again")
    return document


def markdown(documents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of one table with the claims of several verdicts."""
    yield "| experiment | claim | paper | measured | holds |"
    yield "|---|---|---|---|---|"
    for document in documents:
        name = f"{document['experiment']}{' (quick)' if document.get('quick') else ''}"
        for claim in document["claims"]:
            holds = "yes" if claim["holds"] else "**no**"
            yield f"| {name} | {claim['what']} | {claim['paper']} | {claim['measured']} | {holds} |"


def spread(values: Sequence[float]) -> str:
    """Return median and range over seeds, for example 0.62 (0.58 … 0.66)."""
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]:.2f} ({ordered[0]:.2f} … {ordered[-1]:.2f})"


def over_loads(
    values: Mapping[float, float], shown: str = ".2f", *, factor: float = 1, unit: str = ""
) -> str:
    """Return values by load, for example 0.61, 0.58, 0.52 at loads 0.5, 0.6, 0.7."""
    texts = ", ".join(f"{factor * value:{shown}}" for value in values.values()).replace("-", "−")
    return (
        f"{texts}{unit} at load{'s' if len(values) > 1 else ''} {', '.join(f'{load:g}' for load in values)}"
    )
