# SPDX-License-Identifier: Apache-2.0
"""`sluice compare`: one HTML page that compares bundles."""

import argparse
import sys
from pathlib import Path

from sluice.commands.arguments import add_plugin, command_parser, file, folder
from sluice.runtime import extras


def parser() -> argparse.ArgumentParser:
    parser = command_parser("compare")
    parser.add_argument(
        "folders", type=Path, nargs="+", metavar="DIR", help="a bundle, or a folder that holds bundles"
    )
    parser.add_argument(
        "--out", type=file, default=Path("report.html"), help="HTML file to write (default: %(default)s)"
    )
    parser.add_argument(
        "--baseline",
        help="the scheme, or version of the policy, that the others are compared with (default: the first)",
    )
    parser.add_argument(
        "--figures",
        type=folder,
        metavar="FOLDER",
        help="also write every picture as PNG and PDF, and its data as CSV, into FOLDER",
    )
    add_plugin(parser)
    return parser


def execute(arguments: argparse.Namespace) -> int:
    extras.need("matplotlib", "sluice compare")
    from sluice.report.page import write_report

    out, figures = arguments.out, arguments.figures
    for notice in write_report(arguments.folders, out, baseline=arguments.baseline, figures=figures):
        print(f"note: {notice}", file=sys.stderr)
    print(f"report: {out}")
    if figures is not None:
        print(f"figures: {figures}")
    return 0
