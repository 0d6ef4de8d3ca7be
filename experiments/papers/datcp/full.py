# SPDX-License-Identifier: Apache-2.0
"""DATCP's evaluation (Zhang et al., Figs. 8–14) at the paper's own rate: 1 Gb/s, 75 µs a link, flows of 100 MB.

The experiments datcp_fig08 … datcp_fig14 on the simulator. Each has its folder in DIR, with a verdict and a plot.

python -m experiments datcp_full [--out DIR] [--seeds 1 2 3] [--figures 8 13]
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from experiments.papers.datcp.common import FULL

FIGURES = (8, 9, 10, 11, 12, 13, 14)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=FULL.results)
    parser.add_argument("--seeds", type=int, nargs="+", help="one run each (default: as the testbed's)")
    parser.add_argument("--figures", type=int, nargs="+", choices=FIGURES, default=list(FIGURES))
    arguments = parser.parse_args(argv)
    return max(_figure(number, arguments) for number in arguments.figures)


def _figure(number: int, arguments: argparse.Namespace) -> int:
    name = f"datcp_fig{number:02d}"
    words = ["--out", str(arguments.out / name)]
    if arguments.seeds:
        words += ["--seeds", *map(str, arguments.seeds)]
    return int(importlib.import_module(f"experiments.papers.datcp.fig{number:02d}").main(words, FULL))


if __name__ == "__main__":
    sys.exit(main())
