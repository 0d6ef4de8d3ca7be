# SPDX-License-Identifier: Apache-2.0
"""The figures of a verdict as a Markdown table. python -m experiments.ns3_check.table [results/ns3_check]"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.ns3_check.compare import number


def rows(figures: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One for each figure."""
    yield "| case | figure | Sluice | its own range | ns-3 | ratio | within |"
    yield "|---|---|---|---|---|---|---|"
    for figure in figures:
        case, what = figure["what"].split(": ", 1)
        runs = figure["runs"]
        spread = f"{number(min(runs))} … {number(max(runs))}" if runs else "–"
        name = f"{what} ({figure['unit']})" if figure["unit"] else what
        ratio = f"{figure['ratio']:.3f}" if figure["ours"] else "–"
        values = (case, name, number(figure["ours"]), spread, number(figure["ns3"]), ratio, _verdict(figure))
        yield f"| {' | '.join(values)} |"


def _verdict(figure: Mapping[str, Any]) -> str:
    if figure["holds"]:
        return f"{figure['tolerance']:.1%}" if figure["tolerance"] < 0.01 else f"{figure['tolerance']:.0%}"
    return "chance" if figure["is_chance"] else "**differs**"


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "results/ns3_check")
    print(*rows(json.loads((folder / "verdict.json").read_text())["numbers"]["figures"]), sep="\n")
