# SPDX-License-Identifier: Apache-2.0
"""`sluice compare`: one HTML page that compares bundles."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sluice.commands.arguments import add_plugin, command_parser, file
from sluice.report.page import write_report


def parser() -> argparse.ArgumentParser:
    made = command_parser("compare")
    made.add_argument(
        "folders", type=Path, nargs="+", metavar="DIR", help="a bundle, or a folder that holds bundles"
    )
    made.add_argument(
        "--out", type=file, default=Path("report.html"), help="HTML file to write (default: %(default)s)"
    )
    made.add_argument("--baseline", help="the scheme that the others are compared with (default: the first)")
    add_plugin(made)
    return made


def execute(arguments: argparse.Namespace) -> int:
    for notice in write_report(arguments.folders, arguments.out, baseline=arguments.baseline):
        print(f"note: {notice}", file=sys.stderr)
    print(f"report: {arguments.out}")
    return 0
