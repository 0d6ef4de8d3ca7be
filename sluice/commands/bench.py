# SPDX-License-Identifier: Apache-2.0
"""`sluice bench`: the costs of Sluice, compared with their baselines."""

from __future__ import annotations

import argparse
from pathlib import Path

from sluice.bench.parts import PARTS, run_benchmarks
from sluice.commands.arguments import command_parser, file


def parser() -> argparse.ArgumentParser:
    made = command_parser("bench")
    made.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="PART",
        help=f"parts to measure: {', '.join(PARTS)} (default: all)",
    )
    made.add_argument(
        "--out",
        type=file,
        default=Path("results/bench.json"),
        help="file for the figures (default: %(default)s)",
    )
    return made


def execute(arguments: argparse.Namespace) -> int:
    return run_benchmarks(arguments.out, arguments.only)
