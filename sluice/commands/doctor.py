# SPDX-License-Identifier: Apache-2.0
"""`sluice doctor`: what this machine supports, a remedy for each failed check, and which tiers are active."""

import argparse
import os

from sluice.commands.arguments import command_parser
from sluice.doctor import active_tiers, checks
from sluice.terminal import print_checks, print_tiers


def parser() -> argparse.ArgumentParser:
    parser = command_parser("doctor")
    parser.add_argument("--quick", action="store_true", help="check without measuring")
    return parser


def execute(arguments: argparse.Namespace) -> int:
    """Return 1 if a check failed. Tiers that are missing are no failure."""
    findings = print_checks(checks(measure=not arguments.quick))
    if os.geteuid() == 0:
        print_tiers(active_tiers(findings))
    return 0 if all(check.ok for check in findings) else 1
