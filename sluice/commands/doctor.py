# SPDX-License-Identifier: Apache-2.0
"""`sluice doctor`: what this machine supports, a remedy for each failed check, and which tiers are active."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator

from sluice.commands.arguments import command_parser
from sluice.doctor import active_tiers, checks
from sluice.doctor.installed import Check
from sluice.terminal import print_checks, print_tiers


def parser() -> argparse.ArgumentParser:
    made = command_parser("doctor")
    made.add_argument("--quick", action="store_true", help="check without measuring")
    return made


def execute(arguments: argparse.Namespace) -> int:
    """Return 1 if a check failed. Tiers that are missing are no failure."""
    found: list[Check] = []
    code = print_checks(_kept(checks(measure=not arguments.quick), found))
    if os.geteuid() == 0:
        print_tiers(active_tiers(found))
    return code


def _kept(checks: Iterable[Check], found: list[Check]) -> Iterator[Check]:
    for check in checks:
        found.append(check)
        yield check
