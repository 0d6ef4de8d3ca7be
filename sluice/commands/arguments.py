# SPDX-License-Identifier: Apache-2.0
"""The common parts of several commands' command lines."""

from __future__ import annotations

import argparse
from pathlib import Path

from sluice.cli import COMMANDS

SCENARIO_HELP = "a TOML file, or the name of a scenario in experiments/scenarios"


def command_parser(name: str, epilog: str | None = None) -> argparse.ArgumentParser:
    """Return the empty parser of the command `name`. Its help starts with the command's line in
    `sluice --help`."""
    return argparse.ArgumentParser(
        prog=f"sluice {name}",
        description=COMMANDS[name],
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that start a web process: its store, and its log of events."""
    parser.add_argument(
        "--store",
        metavar="URL",
        help="a store that outlives the run: sqlite:////path/store.db or postgresql+psycopg://… "
        "(default: a file in the run's folder)",
    )
    parser.add_argument(
        "--event-log", type=Path, metavar="FILE", help="also write every event to FILE as a line of JSON"
    )


def at_least_one(text: str) -> int:
    """Return a whole number of at least 1. Raises ArgumentTypeError for any other text."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value
