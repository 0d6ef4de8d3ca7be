# SPDX-License-Identifier: Apache-2.0
"""`sluice doctor`: what this machine supports, a remedy for each failed check, and which tiers are active."""

import argparse
import os
from collections.abc import Iterable

from rich.markup import escape

from sluice.commands.arguments import command_parser
from sluice.doctor import Check, Tier, active_tiers, checks
from sluice.terminal import say


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


def print_checks(checks: Iterable[Check]) -> list[Check]:
    """Print one line for each check as it is made, and return all of them."""
    made, before = [], ""
    for check in checks:
        made.append(check)
        name, ok, detail, remedy = check
        _print_as_is(f"{'[green]✓[/]' if ok else '[red]✗[/]'} ", f"{name}: {detail}")
        if not ok and remedy:
            _print_as_is("    remedy: ", "as above" if remedy == before else remedy)
            before = remedy
    return made


def print_tiers(tiers: Iterable[Tier]) -> None:
    """Print the active tier of each feature."""
    _print_as_is("", "What is active here:")
    for feature, active in tiers:
        _print_as_is("  ", f"{feature}: {active}")


def _print_as_is(styled: str, text: str) -> None:
    """Print a text in which brackets are no styles. Lines are not broken, so that commands can be copied."""
    say(styled + escape(text))
