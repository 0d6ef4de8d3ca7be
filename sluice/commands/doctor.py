# SPDX-License-Identifier: Apache-2.0
"""`sluice doctor`: what this machine supports, and a remedy for each failed check."""

from __future__ import annotations

import argparse

from sluice.commands.arguments import command_parser
from sluice.terminal import print_checks
from topologies.doctor import checks


def parser() -> argparse.ArgumentParser:
    made = command_parser("doctor")
    made.add_argument("--quick", action="store_true", help="check without measuring")
    return made


def execute(arguments: argparse.Namespace) -> int:
    return print_checks(checks(measure=not arguments.quick))
